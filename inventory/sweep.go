package inventory

import (
	"context"
	"errors"
	"fmt"
)

// Swept is what one sweep found.
type Swept struct {
	Freed int64         // units given back by due holds
	Ask   []Reservation // attempts that ran out unsettled: ask the shop by reservation id
}

const (
	// maxSweeps bounds the scripts of one sweep of a bucket, each of which looks
	// at 256 holds and 256 attempts.
	maxSweeps = 16
	// enoughAsked ends a sweep of a bucket: the shop has to be asked about each.
	enoughAsked = 256
)

// Sweep frees due holds and lists attempts that ran out unsettled, about 256 of
// those from each bucket, in a few short scripts, so that others of this Redis
// have their turn between. What it lists is listed again two seconds later, to
// whichever replica sweeps then, until it is settled. A bucket that cannot be
// reached leaves the others their sweep; its error comes back beside what they
// found.
func (s *Store) Sweep(ctx context.Context, sale string) (Swept, error) {
	e, err := s.entry(ctx, sale)
	if err != nil || e.gone() {
		return Swept{}, err
	}
	var all Swept
	var faults []error
	for i := range e.cells {
		most := len(all.Ask) + enoughAsked
		for more, n := true, 0; more && n < maxSweeps && len(all.Ask) < most; n++ {
			if more, err = s.sweepBucket(ctx, sale, i, &all); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return all, errors.Join(faults...)
}

// sweepBucket runs one script and says whether more may be due.
func (s *Store) sweepBucket(ctx context.Context, sale string, i int, all *Swept) (more bool, err error) {
	at := func(l *live) *cell { return l.cells[i%len(l.cells)] }
	r, e, c, err := s.onBucket(ctx, sale, at, &s.scripts.sweep)
	if err != nil {
		return false, err
	}
	if r.code == int64(NotPreheated) {
		return false, fmt.Errorf("sweep %s: %w", sale, ErrUnknownSale)
	}
	all.Freed += r.number(0)
	ask, _ := r.any(1).([]any)
	for i := 0; i+1 < len(ask); i += 2 {
		id, _ := ask[i].(string)
		text, _ := ask[i+1].(string)
		res, err := parseRecord(e, c, r.epoch, id, text)
		if err != nil {
			return false, err
		}
		all.Ask = append(all.Ask, res)
	}
	return r.number(2) == 1, nil
}
