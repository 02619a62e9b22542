package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Accept closes the attempt: the shop has the order, unpaid. The units stay
// reserved until the hold's deadline. attempt 0 = by the shop or an operator.
// When the sale's keys are gone it acts on the archive.
// Errors: see settle.
func (s *Store) Accept(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return s.orArchived(ctx, sale, func() (Reservation, error) {
		r, _, err := s.settle(ctx, sale, &s.scripts.accept, id, attempt, shopOrder)
		return r, err
	}, func() (Reservation, error) { return s.settleArchived(ctx, sale, id, Reserved, attempt, shopOrder) })
}

// Confirm marks the units as sold. On an expired reservation it is a late
// payment: confirmed if units are free in any bucket and the buyer's limit
// allows, otherwise refund_due, without an error: read the State. When the
// sale's keys are gone it acts on the archive. Errors: see settle.
func (s *Store) Confirm(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return s.orArchived(ctx, sale, func() (Reservation, error) {
		return s.confirm(ctx, sale, id, attempt, shopOrder)
	}, func() (Reservation, error) { return s.settleArchived(ctx, sale, id, Confirmed, attempt, shopOrder) })
}

// confirm acts on Redis. A late payment for which too few units are free here
// has some brought from other buckets.
func (s *Store) confirm(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	r, short, err := s.settle(ctx, sale, &s.scripts.confirm, id, attempt, shopOrder, 0)
	if err != nil || !short {
		return r, err
	}
	if err := s.bring(ctx, sale, id, r.Quantity); err != nil {
		return Reservation{}, fmt.Errorf("confirm %s: %w", id, err)
	}
	r, _, err = s.settle(ctx, sale, &s.scripts.confirm, id, attempt, shopOrder, 1)
	return r, err
}

// Release gives the units back, whole and once. An unknown id leaves a
// tombstone (state cancelled). A confirmed one is returned only with attempt 0.
// When the sale's keys are gone it acts on the archive. Errors: see settle.
func (s *Store) Release(ctx context.Context, sale, id string, attempt int) (Reservation, error) {
	return s.orArchived(ctx, sale, func() (Reservation, error) {
		r, _, err := s.settle(ctx, sale, &s.scripts.release, id, attempt)
		return r, err
	}, func() (Reservation, error) { return s.settleArchived(ctx, sale, id, Released, attempt, "") })
}

// Expire frees a due hold after the shop said that it has no order.
// Not due yet is ErrNotAllowed. Errors: see settle.
func (s *Store) Expire(ctx context.Context, sale, id string) (Reservation, error) {
	r, _, err := s.settle(ctx, sale, &s.scripts.expire, id)
	return r, err
}

// Extend prolongs a hold, once, while its buyer pays: by at most the sale's
// Hold. Asking again changes nothing. ErrNotAllowed when it is due already.
// Errors: see settle.
func (s *Store) Extend(ctx context.Context, sale, id string, by time.Duration) (Reservation, error) {
	r, _, err := s.settle(ctx, sale, &s.scripts.extend, id, max(by.Milliseconds(), 1))
	return r, err
}

// MarkStuck flags a reservation whose outcome the shop cannot tell. It keeps
// its units; Accept, Confirm, Release and Expire take the flag away.
func (s *Store) MarkStuck(ctx context.Context, sale, id string) error {
	_, _, err := s.settle(ctx, sale, &s.scripts.stuck, id)
	return err
}

// Find reads a reservation; its sale is known from the id's tag.
// ErrUnknownReservation when there is none.
func (s *Store) Find(ctx context.Context, id string) (Reservation, error) {
	if !ValidOrderID(id) {
		return Reservation{}, ErrUnknownReservation
	}
	sale, err := s.saleOfTag(ctx, id[:saleTagLen])
	if errors.Is(err, ErrUnknownReservation) && s.archive != nil {
		return s.findPast(ctx, id)
	}
	if err != nil {
		return Reservation{}, err
	}
	return s.orArchived(ctx, sale, func() (Reservation, error) {
		r, _, err := s.settle(ctx, sale, &s.scripts.find, id)
		return r, err
	}, func() (Reservation, error) { return s.archive.Find(ctx, id) })
}

// settle runs one script on one reservation, atomically. The stored
// reservation comes back beside ErrNotAllowed (no such arrow) and
// ErrAttemptOver (another attempt was granted since); short says that units of
// other buckets are needed. Other errors: ErrUnknownSale,
// ErrUnknownReservation, ErrUnavailable, ErrOutcomeUnknown.
func (s *Store) settle(ctx context.Context, sale string, sc *script, id string, args ...any) (res Reservation, short bool, err error) {
	if !ValidOrderID(id) || !isOfSale(id, sale) {
		return Reservation{}, false, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownReservation)
	}
	at := func(l *live) *cell { return l.home(id) }
	r, e, c, err := s.onBucket(ctx, sale, at, sc, append([]any{shorten(id)}, args...)...)
	if err != nil {
		return Reservation{}, false, err
	}
	switch r.code {
	case int64(NotPreheated):
		return Reservation{}, false, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownSale)
	case answerUnknown:
		return Reservation{}, false, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownReservation)
	}
	res, err = parseRecord(e, c, r.epoch, shorten(id), r.text(0))
	if err != nil {
		return Reservation{}, false, fmt.Errorf("%s: %w: %w", sc.name, ErrOutcomeUnknown, err)
	}
	c.recent.settled(res)
	switch r.code {
	case answerNotAllowed:
		err = fmt.Errorf("%s %s (%s): %w", sc.name, id, res.State, ErrNotAllowed)
	case answerOver:
		err = fmt.Errorf("%s %s: %w", sc.name, id, ErrAttemptOver)
	}
	return res, r.code == answerShort, err
}
