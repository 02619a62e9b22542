package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// fakeBooks are a ledger in memory that keeps the arrows and the total.
type fakeBooks struct {
	mu     sync.Mutex
	sale   Sale
	gone   bool
	at     time.Time
	ledger map[string]Reservation
	fail   func(act string) error // asked before an act
	lose   func(act string) error // asked after it
	acts   int
}

var _ Books = (*Store)(nil)

func (b *fakeBooks) View(string) (View, bool) { return View{Sale: b.sale, Gone: b.gone}, true }

func (b *fakeBooks) held() (n int64) {
	for _, r := range b.ledger {
		if r.State == Reserved || r.State == Confirmed {
			n += r.Quantity
		}
	}
	return n
}

func (b *fakeBooks) Level(context.Context, string) (Level, error) {
	return Level{Sale: b.sale.ID, Total: b.sale.Total, At: b.at}, nil
}

func (b *fakeBooks) Ledger(_ context.Context, _ string, fn func(Reservation) error) error {
	b.mu.Lock()
	all := slices.Collect(maps.Values(b.ledger))
	b.mu.Unlock()
	for _, r := range all {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBooks) Find(_ context.Context, id string) (Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.ledger[id]; ok {
		return r, nil
	}
	return Reservation{}, ErrUnknownReservation
}

// act runs fn on a record, between two chances to fail.
func (b *fakeBooks) act(name, id string, fn func(r *Reservation) error) (Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		if err := b.fail(name); err != nil {
			return Reservation{}, err
		}
	}
	r, ok := b.ledger[id]
	if !ok {
		return Reservation{}, ErrUnknownReservation
	}
	err := fn(&r)
	b.acts++
	b.ledger[id] = r
	if b.lose != nil {
		if err := b.lose(name); err != nil {
			return Reservation{}, err
		}
	}
	return r, err
}

func (b *fakeBooks) Accept(_ context.Context, _, id string, _ int, order string) (Reservation, error) {
	return b.act("accept", id, func(r *Reservation) error {
		if r.State != Reserved {
			return ErrNotAllowed
		}
		r.AttemptUntil, r.Stuck, r.ShopOrder = time.Time{}, false, order
		return nil
	})
}

func (b *fakeBooks) Confirm(_ context.Context, _, id string, _ int, order string) (Reservation, error) {
	return b.act("confirm", id, func(r *Reservation) error {
		switch r.State {
		case Confirmed, RefundDue:
			return nil
		case Reserved:
			r.State = Confirmed
		case Expired:
			r.State = RefundDue
			if b.held()+r.Quantity <= b.sale.Total {
				r.State = Confirmed
			}
		default:
			return ErrNotAllowed
		}
		r.ShopOrder, r.AttemptUntil = order, time.Time{}
		return nil
	})
}

func (b *fakeBooks) Release(_ context.Context, _, id string, _ int) (Reservation, error) {
	return b.act("release", id, func(r *Reservation) error {
		switch r.State {
		case Reserved:
			r.State = Released
		case Confirmed:
			r.State = Returned
		case Released, Returned, Cancelled:
		default:
			return ErrNotAllowed
		}
		return nil
	})
}

func (b *fakeBooks) Expire(_ context.Context, _, id string) (Reservation, error) {
	return b.act("expire", id, func(r *Reservation) error {
		switch {
		case r.State == Reserved && !r.ExpiresAt.After(b.at):
			r.State = Expired
		case r.State != Expired:
			return ErrNotAllowed
		}
		return nil
	})
}

func (b *fakeBooks) Restore(_ context.Context, want Reservation) (Reservation, error) {
	b.mu.Lock()
	if _, ok := b.ledger[want.ID]; !ok {
		if b.held()+want.Quantity > b.sale.Total {
			b.mu.Unlock()
			return Reservation{}, ErrDeficit
		}
		b.ledger[want.ID] = want
	}
	b.mu.Unlock()
	return b.act("restore", want.ID, func(r *Reservation) error {
		if r.State != want.State {
			return ErrNotAllowed
		}
		return nil
	})
}

// fakeArchive keeps rows whose states only move forward, and sold ≤ total.
type fakeArchive struct {
	Archive // Settle is not used
	sale    Sale
	rows    map[string]Reservation
	saves   int
	err     error
}

func (a *fakeArchive) Find(_ context.Context, id string) (Reservation, error) {
	if r, ok := a.rows[id]; ok {
		return r, nil
	}
	return Reservation{}, ErrUnknownReservation
}

func (a *fakeArchive) Each(_ context.Context, _ string, fn func(Reservation) error) error {
	for _, r := range a.rows {
		if err := fn(r); err != nil {
			return err
		}
	}
	return a.err
}

func (a *fakeArchive) Save(_ context.Context, sale Sale, rows []Reservation) error {
	if len(rows) > ArchiveSlice {
		return fmt.Errorf("%d rows", len(rows))
	}
	a.saves++
	next, sold := maps.Clone(a.rows), int64(0)
	for _, r := range rows {
		if old := next[r.ID]; numberOf(old.State).leads(numberOf(r.State)) {
			next[r.ID] = r
		}
	}
	for _, r := range next {
		sold += confirmedUnits(r)
	}
	if sold > sale.Total {
		return ErrOversold
	}
	a.rows = next
	return nil
}

// fakeOrders are a shop.
type fakeOrders struct {
	mu       sync.Mutex
	orders   []ShopOrder
	noList   bool
	noLookup bool
	listErr  error // after all orders
	askErr   error
	asked    int
	mute     bool // an answer says yes or no and nothing else
}

func (o *fakeOrders) Each(_ context.Context, _ string, fn func(ShopOrder) error) error {
	if o.noList {
		return ErrNoList
	}
	for _, order := range o.orders {
		if err := fn(order); err != nil {
			return err
		}
	}
	return o.listErr
}

func (o *fakeOrders) Lookup(_ context.Context, r Reservation) (ShopOrder, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.noLookup {
		return ShopOrder{}, false, ErrNoLookup
	}
	o.asked++
	if o.askErr != nil {
		return ShopOrder{}, false, o.askErr
	}
	for _, order := range o.orders {
		if order.Reservation == r.ID && order.State != OrderCancelled {
			if o.mute {
				return ShopOrder{Reservation: r.ID, Order: order.Order}, true, nil
			}
			return order, true, nil
		}
	}
	return ShopOrder{}, false, nil
}
