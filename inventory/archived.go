package inventory

import (
	"context"
	"errors"
	"fmt"
)

// archived says whether the archive answers for this sale.
func (s *Store) archived(ctx context.Context, sale string) (*entry, bool) {
	if s.archive == nil {
		return nil, false
	}
	e, ok := s.views.Load().bySale[sale]
	if !ok {
		var err error
		e, err = s.entry(ctx, sale)
		ok = err == nil
	}
	return e, ok && e.gone()
}

// orArchived acts on Redis, or on the archive when the sale's keys are gone,
// also when that happened meanwhile.
func (s *Store) orArchived(ctx context.Context, sale string, act, archived func() (Reservation, error)) (Reservation, error) {
	if _, ok := s.archived(ctx, sale); ok {
		return archived()
	}
	r, err := act()
	if err != nil {
		if _, ok := s.archived(ctx, sale); ok {
			return archived()
		}
	}
	return r, err
}

// settleArchived does in the archive what the scripts do while the keys live.
func (s *Store) settleArchived(ctx context.Context, sale, id string, to State, attempt int, shopOrder string) (Reservation, error) {
	if !ValidOrderID(id) || !isOfSale(id, sale) {
		return Reservation{}, fmt.Errorf("archive %s: %w", id, ErrUnknownReservation)
	}
	r, err := s.archive.Settle(ctx, id, to, attempt, shopOrder)
	if to == Released && attempt == 0 && errors.Is(err, ErrNotAllowed) && r.State == Confirmed {
		return s.archive.Settle(ctx, id, Returned, 0, "") // by the shop or an operator
	}
	return r, err
}

// notArchived refuses a sale of which Redis knows nothing and the archive that
// it has sold: Redis has lost it, and it would be sold again from a full stock.
func (s *Store) notArchived(ctx context.Context, sale string) error {
	if s.archive == nil {
		return nil
	}
	kept, err := s.archive.Sale(ctx, sale)
	switch {
	case errors.Is(err, ErrUnknownSale):
		return nil
	case err != nil:
		return fmt.Errorf("asking the archive for it: %w", err)
	case kept.Left != "":
		return errInArchive()
	case kept.Sold > 0:
		return errHasSold()
	}
	return nil
}

func errInArchive() error { return fmt.Errorf("%w, ended, and is in the archive", ErrSaleStarted) }

func errHasSold() error {
	return fmt.Errorf("%w and has sold, so it is not begun again with a full stock: %w", ErrSaleStarted, ErrStockLost)
}

// reserveArchived answers an order of a sale whose keys are gone: a known one
// with what became of it, a new one comes too late.
func (s *Store) reserveArchived(ctx context.Context, o Order) (Result, error) {
	r, err := s.archive.Find(ctx, o.ID)
	switch {
	case errors.Is(err, ErrUnknownReservation):
		return Result{Code: NotRunning}, nil
	case err != nil:
		return Result{}, err
	case r.State == Cancelled:
		return Result{Code: Tombstoned, Reservation: r}, nil
	case r.User != o.User || r.Item != o.Item || r.Quantity != o.Quantity:
		return Result{Code: Mismatch, Reservation: r}, nil
	}
	return Result{Code: Known, Reservation: r}, nil
}

// archivedLevel is the account of a sale whose keys are gone: what is not
// confirmed was never sold.
func (s *Store) archivedLevel(ctx context.Context, e *entry) (Level, error) {
	if s.archive == nil {
		return Level{}, fmt.Errorf("sale %s is archived, and no archive is configured: %w", e.view.Sale.ID, ErrArchiveUnavailable)
	}
	kept, err := s.archive.Sale(ctx, e.view.Sale.ID)
	if err != nil {
		return Level{}, err
	}
	total := kept.Plan.Total
	return Level{Sale: kept.Plan.ID, Total: total, Free: total - kept.Sold, Confirmed: kept.Sold, At: s.views.Load().now(), Buckets: []BucketLevel{}}, nil
}

// Cleanup deletes the keys of a sale that is over: it shuts its buckets, so that
// nothing changes any more, brings open loans home, copies the ledger to the
// archive once more, records that the archive answers from now on, and deletes.
// Each step may be repeated, and so may the whole. ErrNotAllowed while the sale
// is not over, or without an archive.
func (s *Store) Cleanup(ctx context.Context, sale string) error {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return err
	}
	state := e.view.StateAt(s.views.Load().now())
	if s.archive == nil || (state != SaleEnded && state != SaleCancelled) {
		return fmt.Errorf("cleaning up sale %s (%s): %w", sale, state, ErrNotAllowed)
	}
	if !e.gone() {
		if err := s.closeBooks(ctx, e); err != nil {
			return fmt.Errorf("cleaning up sale %s: %w", sale, err)
		}
	}
	for _, c := range e.cells {
		if err := s.redis.Unlink(ctx, c.all...).Err(); err != nil {
			return fmt.Errorf("cleaning up sale %s: %w", sale, mapRead(err))
		}
	}
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("cleaning up sale %s: %w", sale, mapRead(err))
	}
	err = s.amend(ctx, sale, func(r *record) (bool, error) {
		changed := r.Gone && r.Deleted == 0
		if changed {
			r.Deleted = now.UnixMilli()
		}
		return changed, nil
	})
	if err != nil {
		return fmt.Errorf("cleaning up sale %s: %w", sale, err)
	}
	return s.Refresh(ctx)
}

func (s *Store) closeBooks(ctx context.Context, e *entry) error {
	sale := e.view.Sale.ID
	if err := s.repair(ctx, sale); err != nil {
		return err
	}
	for _, c := range e.cells {
		code, err := s.runInt(ctx, &s.scripts.shut, []string{c.headKey()}, c.generation)
		if err != nil {
			return err
		}
		if code != 0 {
			return errNoBucket(sale)
		}
	}
	if err := s.copyAll(ctx, e); err != nil {
		return err
	}
	if err := s.archive.Seal(ctx, sale, e.view.Desired); err != nil {
		return err
	}
	return s.amend(ctx, sale, func(r *record) (bool, error) {
		if !r.Gone && r.Generation != e.view.Generation {
			return false, fmt.Errorf("another generation is in force: %w", ErrUnavailable)
		}
		changed := !r.Gone
		r.Gone = true
		return changed, nil
	})
}

// copyAll brings the whole ledger to the archive, in slices.
func (s *Store) copyAll(ctx context.Context, e *entry) error {
	slice := make([]Reservation, 0, ArchiveSlice)
	save := func() error {
		err := s.archive.Save(ctx, e.view.Sale, slice)
		slice = slice[:0]
		return err
	}
	err := s.Ledger(ctx, e.view.Sale.ID, func(r Reservation) error {
		if slice = append(slice, r); len(slice) == ArchiveSlice {
			return save()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return save()
}

type archiveAway struct{}

func (archiveAway) Error() string { return "archive unavailable" }
func (archiveAway) Unwrap() error { return ErrUnavailable }
