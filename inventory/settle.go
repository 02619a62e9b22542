package inventory

import (
	"context"
	"fmt"
	"strings"
)

// Accept closes the attempt: the shop has the order, unpaid. The units stay
// reserved until the hold's deadline. attempt 0 = by the shop or an operator.
// Errors: see settle.
func (s *Store) Accept(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return s.settle(ctx, sale, &s.scripts.accept, id, attempt, shopOrder)
}

// Confirm marks the units as sold. On an expired reservation it is a late
// payment: confirmed if units are free and the buyer's limit allows, otherwise
// refund_due, without an error: read the State. Errors: see settle.
func (s *Store) Confirm(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return s.settle(ctx, sale, &s.scripts.confirm, id, attempt, shopOrder)
}

// Release gives the units back, whole and once. An unknown id leaves a
// tombstone (state cancelled). A confirmed one is returned only with attempt 0.
// Errors: see settle.
func (s *Store) Release(ctx context.Context, sale, id string, attempt int) (Reservation, error) {
	return s.settle(ctx, sale, &s.scripts.release, id, attempt)
}

// Expire frees a due hold after the shop said that it has no order.
// Not due yet is ErrNotAllowed. Errors: see settle.
func (s *Store) Expire(ctx context.Context, sale, id string) (Reservation, error) {
	return s.settle(ctx, sale, &s.scripts.expire, id)
}

// MarkStuck flags a reservation whose outcome the shop cannot tell. It keeps
// its units; Accept, Confirm, Release and Expire take the flag away.
func (s *Store) MarkStuck(ctx context.Context, sale, id string) error {
	_, err := s.settle(ctx, sale, &s.scripts.stuck, id)
	return err
}

// Find reads a reservation; its sale is known from the id's tag.
// ErrUnknownReservation when there is none.
func (s *Store) Find(ctx context.Context, id string) (Reservation, error) {
	if !ValidOrderID(id) {
		return Reservation{}, ErrUnknownReservation
	}
	sale, err := s.saleOfTag(ctx, id[:saleTagLen])
	if err != nil {
		return Reservation{}, err
	}
	return s.settle(ctx, sale, &s.scripts.find, id)
}

// settle runs one script on one reservation, atomically. The stored
// reservation comes back beside ErrNotAllowed (no such arrow) and
// ErrAttemptOver (another attempt was granted since). Other errors:
// ErrUnknownSale, ErrUnknownReservation, ErrUnavailable, ErrOutcomeUnknown.
func (s *Store) settle(ctx context.Context, sale string, sc *script, id string, args ...any) (Reservation, error) {
	if !ValidOrderID(id) || !strings.HasPrefix(id, saleTag(sale)) {
		return Reservation{}, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownReservation)
	}
	r, e, err := s.bucketScript(ctx, sale, sc, append([]any{id}, args...)...)
	if err != nil {
		return Reservation{}, err
	}
	switch r.code {
	case int64(NotPreheated):
		return Reservation{}, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownSale)
	case answerUnknown:
		return Reservation{}, fmt.Errorf("%s %s: %w", sc.name, id, ErrUnknownReservation)
	}
	res, err := parseRecord(e.view.Sale, id, r.text(0))
	if err != nil {
		return Reservation{}, fmt.Errorf("%s: %w: %w", sc.name, ErrOutcomeUnknown, err)
	}
	switch r.code {
	case answerNotAllowed:
		err = fmt.Errorf("%s %s (%s): %w", sc.name, id, res.State, ErrNotAllowed)
	case answerOver:
		err = fmt.Errorf("%s %s: %w", sc.name, id, ErrAttemptOver)
	}
	return res, err
}
