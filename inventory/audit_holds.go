package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const (
	listSlice = 512 // entries of a list that are read at a time
	// maxDoubts bounds the reservations of a bucket that are looked up one by one.
	maxDoubts = 1024
)

// lists are the lines of a bucket that free holds and have attempts asked about,
// as a walk saw them.
type lists struct {
	frees map[string]bool // order
	asks  map[string]bool // "order attempt"
}

// walkLists reads a bucket's lists in slices. What is worked off meanwhile moves
// the rest forward, so entries may be missed: who is missing is looked up.
func (s *Store) walkLists(ctx context.Context, c *cell) (lists, error) {
	l := lists{frees: map[string]bool{}, asks: map[string]bool{}}
	head, err := s.redis.HGet(ctx, c.headKey(), "asked").Int64()
	if err != nil {
		return l, fmt.Errorf("walking the holds: %w", mapRead(err))
	}
	for key, note := range map[string]func(at int64, entry string){
		c.holdsKey(): func(at int64, id string) {
			l.frees[id] = true
			if at > head { // not yet looked at for its first attempt
				l.asks[id+" 1"] = true
			}
		},
		c.extendedKey(): func(_ int64, id string) { l.frees[id] = true },
		c.attemptsKey(): func(_ int64, entry string) {
			if _, attempt, ok := strings.Cut(entry, " "); ok { // after until
				l.asks[attempt] = true
			}
		},
	} {
		for at := int64(1); ; at += listSlice { // the first was worked off before
			some, err := s.redis.LRange(ctx, key, at, at+listSlice-1).Result()
			if err != nil {
				return l, fmt.Errorf("walking the holds: %w", mapRead(err))
			}
			for i, entry := range some {
				note(at+int64(i), entry)
			}
			if len(some) < listSlice {
				break
			}
		}
	}
	return l, nil
}

// unlisted names the reservations that hold units and that no list will ever
// free, or whose open attempt nobody will ever ask about. What the walk of the
// lists missed is asked for by itself, each in one script; too many of these
// prove nothing.
func (s *Store) unlisted(ctx context.Context, c *cell, b *books) (d []string, proved bool, err error) {
	l, err := s.walkLists(ctx, c)
	if err != nil {
		return nil, false, err
	}
	var doubts []string
	for id, r := range b.records {
		if r.state != Reserved {
			continue
		}
		order := shorten(id)
		asked := l.asks[fmt.Sprint(order, " ", r.attempt)]
		if (!l.frees[order] && !(r.open && asked)) || (r.open && !asked) {
			doubts = append(doubts, id)
		}
	}
	if len(doubts) > maxDoubts {
		return nil, false, nil
	}
	slices.Sort(doubts)
	for _, id := range doubts {
		v, err := s.run(ctx, &s.scripts.listed, c.all, "0", c.generation, "0", shorten(id))
		if err != nil {
			return nil, false, fmt.Errorf("walking the holds: %w: %v", ErrUnavailable, err)
		}
		r, err := parseReply("listed", v)
		switch {
		case err != nil:
			return nil, false, err
		case r.code != 0:
			return nil, false, errNoBucket(c.sale)
		case r.number(0) == 0:
			d = append(d, fmt.Sprintf("bucket %d: reservation %s holds units and stands in no list: nobody will ever free it", c.index, id))
		case r.number(1) == 0:
			d = append(d, fmt.Sprintf("bucket %d: reservation %s has an open attempt and stands in no list: nobody will ever ask about it", c.index, id))
		}
	}
	return d, true, nil
}

// archivedRows are the states of a sale's reservations in the archive, read
// before the ledger: the ledger must be as far or further.
func (s *Store) archivedRows(ctx context.Context, sale string) (map[string]State, error) {
	if s.archive == nil {
		return nil, nil
	}
	rows := map[string]State{}
	err := s.archive.Each(ctx, sale, func(r Reservation) error {
		if r.State != Cancelled { // a tombstone may be of an earlier generation
			rows[r.ID] = r.State
		}
		return nil
	})
	return rows, err
}

// behind names the reservations of a bucket of which the archive knows more than
// the ledger. It takes out of rows whom it found.
func (b *books) behind(index int, rows map[string]State) (d []string) {
	for id, r := range b.records {
		archived, ok := rows[id]
		delete(rows, id)
		if ok && archived != r.state && !numberOf(archived).leads(numberOf(r.state)) {
			d = append(d, fmt.Sprintf("bucket %d: reservation %s is %s in the archive and %s in the ledger, which has gone back", index, id, archived, r.state))
		}
	}
	slices.Sort(d)
	return d
}
