package inventory

import (
	"context"
	"fmt"
	"sort"
	"strconv"
)

const (
	scanCount  = 512 // fields asked for at a time, so that no call blocks Redis
	auditTries = 8
	maxShown   = 32 // differences listed
)

// Audit is the proof of the books.
type Audit struct {
	OK          bool
	Level       Level
	Differences []string // at most 32; "" free of doubt when OK
}

// Ledger calls fn for each reservation, tombstones too, in no order. It walks
// in slices while the sale goes on: what changes meanwhile may be seen in
// either state, and a record may come more than once. An error of fn ends it.
func (s *Store) Ledger(ctx context.Context, sale string, fn func(Reservation) error) error {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return err
	}
	return s.scan(ctx, bucket{sale: sale, generation: e.view.Generation}.ledgerKey(), func(id, text string) error {
		r, err := parseRecord(e.view.Sale, id, text)
		if err != nil {
			return err
		}
		return fn(r)
	})
}

func (s *Store) scan(ctx context.Context, key string, fn func(field, value string) error) error {
	for cursor := uint64(0); ; {
		kv, next, err := s.redis.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return fmt.Errorf("walking the ledger: %w", mapRead(err))
		}
		for i := 0; i+1 < len(kv); i += 2 {
			if err := fn(kv[i], kv[i+1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Audit walks the ledger and compares it with the counters: sums by state,
// units per buyer, the invariant. A walk during which the stock changed proves
// nothing and is done again, a few times; then the audit is not OK and says so.
func (s *Store) Audit(ctx context.Context, sale string) (Audit, error) {
	for range auditTries {
		before, err := s.Level(ctx, sale)
		if err != nil {
			return Audit{}, err
		}
		b, err := s.addUp(ctx, sale)
		if err != nil {
			return Audit{}, err
		}
		after, err := s.Level(ctx, sale)
		if err != nil {
			return Audit{}, err
		}
		if before.Seq == after.Seq {
			d := b.compare(after)
			return Audit{OK: len(d) == 0, Level: after, Differences: d[:min(len(d), maxShown)]}, nil
		}
	}
	level, err := s.Level(ctx, sale)
	return Audit{Level: level, Differences: []string{"the stock changed during every walk: nothing is proved"}}, err
}

// books are the ledger's sums.
type books struct {
	byState map[State]int64
	owed    map[string]int64 // user -> units that count to his limit, from the ledger
	counted map[string]int64 // the same, as the scripts counted
}

func (s *Store) addUp(ctx context.Context, sale string) (books, error) {
	b := books{byState: map[State]int64{}, owed: map[string]int64{}, counted: map[string]int64{}}
	once := map[string]bool{} // HSCAN may give a field twice
	err := s.Ledger(ctx, sale, func(r Reservation) error {
		if once[r.ID] {
			return nil
		}
		once[r.ID] = true
		b.byState[r.State] += r.Quantity
		if r.User != "" && (r.State == Reserved || r.State == Confirmed) {
			b.owed[r.User] += r.Quantity
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	e, err := s.entry(ctx, sale)
	if err != nil {
		return b, err
	}
	err = s.scan(ctx, bucket{sale: sale, generation: e.view.Generation}.buyersKey(), func(user, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		b.counted[user] = n
		return err
	})
	return b, err
}

func (b books) compare(l Level) []string {
	var d []string
	check := func(what string, counter, ledger int64) {
		if counter != ledger {
			d = append(d, fmt.Sprintf("%s: the counter says %d, the ledger %d", what, counter, ledger))
		}
	}
	check("reserved", l.Reserved, b.byState[Reserved])
	check("confirmed", l.Confirmed, b.byState[Confirmed])
	check("free", l.Free, l.Total-l.OnLoan-b.byState[Reserved]-b.byState[Confirmed])
	if l.Free < 0 || l.Reserved < 0 || l.Confirmed < 0 || l.OnLoan < 0 {
		d = append(d, fmt.Sprintf("a counter is negative: %+v", l))
	}
	users := make([]string, 0, len(b.counted))
	for u := range b.counted {
		users = append(users, u)
	}
	for u := range b.owed {
		if _, ok := b.counted[u]; !ok {
			users = append(users, u)
		}
	}
	sort.Strings(users)
	for _, u := range users {
		check(fmt.Sprintf("units of buyer %q", u), b.counted[u], b.owed[u])
	}
	return d
}
