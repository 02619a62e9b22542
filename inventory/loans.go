package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errDeficit: units were accepted that their lender has no longer.
var errDeficit = errors.New("too few units are free for a loan that was forgotten")

const deficitReason = "a loan between buckets was forgotten and its units are sold: more is booked than there is"

// roadwork is what was on loan at a reading.
type roadwork struct{ out, in int64 }

// stockChores frees due holds where nothing else is left, and sends on loans
// that are on the road at two readings in a row. It also compares the loan
// books of a sale that this replica sees for the first time.
func (s *Store) stockChores(e *entry, heads []*head, l Level) []chore {
	var chores []chore
	sale := e.view.Sale.ID
	if l.Free == 0 {
		for i, h := range heads {
			if h.dueNow() {
				c := e.cells[i]
				chores = append(chores, func(ctx context.Context) error {
					_, err := s.runArmed(ctx, e, c, &s.scripts.reserve, []any{"", 0, 0})
					return err
				})
			}
		}
	}
	now := &roadwork{}
	for _, h := range heads {
		now.out, now.in = now.out+h.level.LentOut, now.in+h.level.LentIn
	}
	last := e.loans.Swap(now)
	stays := now.out != now.in && last != nil && *last == *now
	if stays || (last == nil && now.in > 0) { // sums may agree by chance: the first time all is compared
		chores = append(chores, func(ctx context.Context) error { return s.repair(ctx, sale) })
	}
	return chores
}

// repair compares the loan books of a sale's buckets: what was lent and not
// accepted is accepted again, what was accepted and its lending forgotten is
// lent again. If that is impossible the sale is paused. Both scripts know their
// loans by id, so a repair may run beside a gatherer and beside another repair.
func (s *Store) repair(ctx context.Context, sale string) error {
	e, err := s.entry(ctx, sale)
	if err != nil || len(e.cells) < 2 {
		return err
	}
	// Accepted first: each of these was lent before it was accepted.
	accepted, err := s.books(ctx, e.live, bucket.acceptedKey)
	if err != nil {
		return err
	}
	lent, err := s.books(ctx, e.live, bucket.lentKey)
	if err != nil {
		return err
	}
	var faults []error
	for id, in := range accepted {
		if _, ok := lent[id]; !ok {
			faults = append(faults, s.lendAgain(ctx, e, id, in))
		}
	}
	for id, out := range lent {
		if _, ok := accepted[id]; !ok {
			faults = append(faults, s.takeIn(ctx, e, e.cells[out.other], loan{id: id, units: out.units, from: out.at}))
		}
	}
	return errors.Join(faults...)
}

// takeIn accepts a loan without orders.
func (s *Store) takeIn(ctx context.Context, e *entry, c *cell, l loan) error {
	r, err := s.runArmed(ctx, e, c, &s.scripts.reserve, []any{l.id, l.units, l.from})
	if err == nil && r.code != 0 {
		err = staysStale("accepting a loan", r)
	}
	return err
}

// onTheRoad: lent and not accepted, as far as sums tell.
func onTheRoad(heads []*head) bool {
	var out, in int64
	for _, h := range heads {
		out, in = out+h.level.LentOut, in+h.level.LentIn
	}
	return out != in
}

func (s *Store) lendAgain(ctx context.Context, e *entry, id string, in entryOfLoan) error {
	sale := e.view.Sale.ID
	_, err := s.lend(ctx, e, loan{id: id, units: in.units, from: in.other}, in.at, true)
	if !errors.Is(err, errDeficit) {
		return err
	}
	if _, told := e.deficits.LoadOrStore(id, true); !told { // it stands until a person ends it
		s.log.Error("STOCK LOST: "+deficitReason, "sale", sale, "loan", id, "units", in.units, "from", in.other, "to", in.at)
		s.seen.lost.Add(1)
	}
	return errors.Join(err, s.pause(ctx, e, deficitReason))
}

// entryOfLoan is a line of a loan book.
type entryOfLoan struct {
	units     int64
	at, other int // the bucket of the book, and the one on the other side
}

// books reads one kind of loan book of all buckets.
func (s *Store) books(ctx context.Context, l *live, key func(bucket) string) (map[string]entryOfLoan, error) {
	all := map[string]entryOfLoan{}
	for _, c := range l.cells {
		if _, err := s.bookOf(ctx, l, c, key(c.bucket), all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// bookOf reads one bucket's loan book into all, and adds it up.
func (s *Store) bookOf(ctx context.Context, l *live, c *cell, key string, all map[string]entryOfLoan) (units int64, err error) {
	once := map[string]int64{} // HSCAN may give a field twice
	err = s.scan(ctx, key, func(id, text string) error {
		unreadable := fmt.Errorf("loan %s of bucket %d: unreadable: %q", id, c.index, text)
		f := strings.Fields(text)
		if len(f) != 3 {
			return unreadable
		}
		units, err1 := strconv.ParseInt(f[0], 10, 64)
		other, err2 := strconv.Atoi(f[1])
		if err := errors.Join(err1, err2); err != nil || other < 0 || other >= len(l.cells) {
			return unreadable
		}
		all[id] = entryOfLoan{units: units, at: c.index, other: other}
		once[id] = units
		return nil
	})
	for _, n := range once {
		units += n
	}
	return units, err
}
