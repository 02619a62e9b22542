package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// pastKept is how many sales whose keys are deleted stay in the list of all
	// sales, the last ones. Of older ones only the archive is left, which answers
	// for them as before; so what every replica reads at each refresh is bounded.
	pastKept = 16
	// pastKnown bounds the sales from the archive that a replica remembers.
	pastKnown = 64
	// retirePause is how long a replica waits before it tries again to take a
	// sale off the list.
	retirePause = 10 * time.Second
)

// past is a sale that only the archive knows, or ErrUnknownSale.
func (s *Store) past(ctx context.Context, sale string) (*entry, error) {
	unknown := fmt.Errorf("sale %s: %w", sale, ErrUnknownSale)
	if s.archive == nil {
		return nil, unknown
	}
	if e, ok := s.pastSales.Get(sale); ok {
		return e, nil
	}
	kept, err := s.archive.Sale(ctx, sale)
	if err != nil {
		return nil, err
	}
	if kept.Left == "" {
		return nil, unknown
	}
	e := &entry{
		live: &live{}, tag: saleTag(sale),
		view: View{Sale: kept.Plan, Desired: kept.Left, Gone: true},
	}
	s.pastSales.Add(sale, e)
	return e, nil
}

// findPast looks in the archive for a reservation of a sale that only the
// archive knows.
func (s *Store) findPast(ctx context.Context, id string) (Reservation, error) {
	r, err := s.archive.Find(ctx, id)
	if err != nil {
		return Reservation{}, err
	}
	if _, err := s.past(ctx, r.Sale); errors.Is(err, ErrUnknownSale) { // lost, and not over: the copy may be stale
		return Reservation{}, fmt.Errorf("%s: %w", id, ErrUnknownReservation)
	} else if err != nil {
		return Reservation{}, err
	}
	return r, nil
}

// sealed: the archive has all of it, so Redis may have nothing of it any more.
func (s *Store) sealed(ctx context.Context, sale string) (bool, error) {
	_, err := s.past(ctx, sale)
	if errors.Is(err, ErrUnknownSale) {
		return false, nil
	}
	return err == nil, err
}

// retireChores take the oldest of the sales that are over and deleted off the list.
func (s *Store) retireChores(entries []*entry, texts map[string]string) []chore {
	if s.archive == nil {
		return nil
	}
	var over []*entry
	for _, e := range entries {
		if e.deleted != 0 {
			over = append(over, e)
		}
	}
	slices.SortFunc(over, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.deleted, a.deleted), cmp.Compare(b.view.Generation, a.view.Generation))
	})
	var chores []chore
	for _, e := range over[min(pastKept, len(over)):] {
		if now := s.nano(); now >= e.retire.Load() {
			e.retire.Store(now + int64(retirePause))
			text := texts[e.view.Sale.ID]
			chores = append(chores, func(ctx context.Context) error { return s.retire(ctx, e, text) })
		}
	}
	return chores
}

// retire deletes what Redis has of a sale that is in the archive, unless it
// changed since it was read or its quota is not back yet.
func (s *Store) retire(ctx context.Context, e *entry, text string) error {
	sale := e.view.Sale.ID
	quota, err := s.lookQuota(ctx, sale)
	if err != nil || (quota.text != "" && quota.Stage != QuotaThawed) {
		return err
	}
	if err := s.archive.Seal(ctx, sale, e.view.Desired); err != nil { // one that an older weir deleted is not yet
		return fmt.Errorf("sale %s stays in the list: %w", sale, err)
	}
	code, err := s.runInt(ctx, &s.scripts.retire, []string{salesKey(), tagsKey(), quotasKey()}, sale, text, e.tag, quota.text)
	if err != nil || code != 0 {
		return err
	}
	return s.marks.forget(sale)
}

// forgetPast drops the marks of sales that are in the archive alone. Each mark
// without a sale is asked about once by a process.
func (s *Store) forgetPast(entries []*entry) []chore {
	if s.archive == nil || s.marks.to == nil {
		return nil
	}
	var chores []chore
	for _, sale := range s.marks.strangers(entries) {
		chores = append(chores, func(ctx context.Context) error {
			sealed, err := s.sealed(ctx, sale)
			if err == nil && sealed {
				err = s.marks.forget(sale)
			}
			return err
		})
	}
	return chores
}
