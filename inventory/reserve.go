package inventory

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// maxUser bounds what a user's name may cost in the ledger, in bytes.
const maxUser = 256

// check refuses what no script would take, before anything is sent.
func (o Order) check() error {
	bad := func(text string) error { return fmt.Errorf("%w: %s", ErrInvalidOrder, text) }
	switch {
	case !ValidOrderID(o.ID) || !strings.HasPrefix(o.ID, saleTag(o.Sale)):
		return bad("the id is not one of this sale")
	case len(o.User) > maxUser:
		return bad("the user is longer than 256 bytes")
	case o.Quantity < 1 || o.Quantity > maxUnits:
		return bad("the quantity must be 1 or more")
	case o.AttemptFor < time.Millisecond:
		return bad("the attempt must last 1ms or more")
	}
	return nil
}

// Reserve takes units for the order in one script, or answers what became of
// it. It is safe to repeat with the same id; it never repeats by itself.
// Errors: ErrInvalidOrder, ErrUnknownSale, ErrUnavailable (not executed),
// ErrOutcomeUnknown (perhaps executed). Codes -1 … -7 come without an error.
func (s *Store) Reserve(ctx context.Context, o Order) (Result, error) {
	if err := o.check(); err != nil {
		return Result{}, err
	}
	before := time.Now()
	r, e, err := s.bucketScript(ctx, o.Sale, &s.scripts.reserve,
		o.ID, o.Item, o.User, o.Quantity, o.AttemptFor.Milliseconds())
	if err != nil {
		return Result{}, err
	}
	res := Result{Code: Code(r.code), Granted: r.number(1) == 1, Available: r.number(2)}
	if until := r.number(3); until != 0 {
		res.Until = msTime(until)
	}
	if text := r.text(0); text != "" && res.Code != NotPreheated {
		if res.Reservation, err = parseRecord(e.view.Sale, o.ID, text); err != nil {
			return Result{}, fmt.Errorf("reserve: %w: %w", ErrOutcomeUnknown, err)
		}
	}
	if res.Code == NotEnough && res.Available == 0 {
		s.markSoldOut(o.Sale, r.seq, before)
	}
	return res, nil
}
