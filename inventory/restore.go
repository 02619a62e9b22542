package inventory

import (
	"context"
	"fmt"
	"time"
)

// Restore puts a reserved or confirmed reservation back that Redis has
// forgotten, under the same id, or moves it on from reserved to confirmed. It
// works in every state of the sale and may be repeated. ErrDeficit when no
// bucket has units for it; ErrNotAllowed beside the stored one when it stands
// in a state from which there is no way.
func (s *Store) Restore(ctx context.Context, r Reservation) (Reservation, error) {
	res, _, err := s.restore(ctx, r)
	return res, err
}

// restore also says whether anything changed, as far as it can tell.
func (s *Store) restore(ctx context.Context, r Reservation) (res Reservation, changed bool, err error) {
	state := "r"
	switch {
	case !ValidOrderID(r.ID) || !isOfSale(r.ID, r.Sale):
		return Reservation{}, false, fmt.Errorf("restore %q: %w: the id is not one of sale %s", r.ID, ErrInvalidOrder, r.Sale)
	case r.Quantity < 1 || r.Quantity > maxUnits || len(r.User) > maxUser || !kindPattern.MatchString(r.Kind):
		return Reservation{}, false, fmt.Errorf("restore %s: %w: quantity, user or kind", r.ID, ErrInvalidOrder)
	case r.State == Confirmed:
		state = "c"
	case r.State != Reserved:
		return Reservation{}, false, fmt.Errorf("restore %s: %w: state %q holds no units", r.ID, ErrInvalidOrder, r.State)
	}
	for final := range 2 {
		code, got, more, err := s.restoreOnce(ctx, r, state, final)
		if err != nil || code != answerShort {
			return got, more, err
		}
		if err := s.bring(ctx, r.Sale, r.ID, r.Quantity); err != nil {
			return Reservation{}, false, fmt.Errorf("restore %s: %w", r.ID, err)
		}
	}
	return Reservation{}, false, fmt.Errorf("restore %s: %w", r.ID, ErrDeficit)
}

func (s *Store) restoreOnce(ctx context.Context, r Reservation, state string, final int) (int64, Reservation, bool, error) {
	at := func(l *live) *cell { return l.home(r.ID) }
	e, err := s.entry(ctx, r.Sale)
	if err != nil {
		return 0, Reservation{}, false, err
	}
	before := at(e.live).watch.seen()
	since := func(t time.Time) int64 {
		h := at(e.live).level.Load()
		if h == nil || t.IsZero() {
			return 0
		}
		return max(t.UnixMilli()-h.epoch, 0)
	}
	reply, e, c, err := s.onBucket(ctx, r.Sale, at, &s.scripts.restore, shorten(r.ID), state, r.User, r.Kind, r.Quantity,
		since(r.ReservedAt), since(r.ExpiresAt), r.Attempt, since(r.AttemptUntil), r.ShopOrder, final)
	switch {
	case err != nil:
		return 0, Reservation{}, false, err
	case reply.code == int64(NotPreheated):
		return 0, Reservation{}, false, fmt.Errorf("restore %s: %w", r.ID, ErrUnknownSale)
	case reply.code == answerShort, reply.code == answerDeficit:
		if reply.code == answerDeficit {
			err = fmt.Errorf("restore %s: %w", r.ID, ErrDeficit)
		}
		return reply.code, Reservation{}, false, err
	}
	res, err := parseRecord(e, c, reply.epoch, shorten(r.ID), reply.text(0))
	if err != nil {
		return 0, Reservation{}, false, fmt.Errorf("restore: %w: %w", ErrOutcomeUnknown, err)
	}
	if reply.code == answerNotAllowed {
		err = fmt.Errorf("restore %s (%s): %w", r.ID, res.State, ErrNotAllowed)
	}
	return reply.code, res, reply.seq > before, err
}

// bring moves units to the home bucket of an order from the others, if they
// have any, those on the road first. Without an error all was tried; who needs
// them asks again. What failed on the way is ErrUnavailable: nothing is settled.
func (s *Store) bring(ctx context.Context, sale, id string, units int64) error {
	e, err := s.entry(ctx, sale)
	if err != nil || len(e.cells) < 2 {
		return err
	}
	heads, err := s.readHeads(ctx, e.live)
	if err != nil {
		return err
	}
	if onTheRoad(heads) {
		if err := s.repair(ctx, sale); err != nil {
			return notBrought(err)
		}
		if heads, err = s.readHeads(ctx, e.live); err != nil {
			return err
		}
	}
	g := gathering{s: s, e: e, heads: heads}
	at := e.home(id)
	loans := g.borrow(ctx, at.index, units)
	for _, l := range loans {
		if err := s.takeIn(ctx, e, at, l); err != nil {
			g.failed = err
		}
	}
	if g.failed != nil {
		return notBrought(g.failed)
	}
	return nil
}

func notBrought(err error) error {
	return fmt.Errorf("%w: bringing units of other buckets: %v", ErrUnavailable, err)
}
