package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// caseArchive is an Archive in memory, for what Store does around one. The SQL
// archive is held to the same face in its own package.
type caseArchive struct {
	mu    sync.Mutex
	plans map[string]Sale
	rows  map[string]Reservation
	// sealed is the state that a sale was left in.
	sealed map[string]Desired
}

func (a *caseArchive) Seal(_ context.Context, id string, left Desired) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.plans[id]; !ok {
		return ErrUnknownSale
	}
	a.sealed[id] = left
	return nil
}

func newCaseArchive() *caseArchive {
	return &caseArchive{plans: map[string]Sale{}, rows: map[string]Reservation{}, sealed: map[string]Desired{}}
}

func (a *caseArchive) Save(_ context.Context, sale Sale, rows []Reservation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans[sale.ID] = sale
	for _, r := range rows {
		a.rows[r.ID] = r
	}
	return nil
}

func (a *caseArchive) Find(_ context.Context, id string) (Reservation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.rows[id]; ok {
		return r, nil
	}
	return Reservation{}, ErrUnknownReservation
}

func (a *caseArchive) Settle(_ context.Context, id string, to State, attempt int, shopOrder string) (Reservation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.rows[id]
	switch {
	case !ok:
		return Reservation{}, ErrUnknownReservation
	case r.State == to && to != Reserved, r.State == Returned && to == Released, r.State == Confirmed && to == Reserved:
	case r.State == Reserved && to != Returned && attempt > 0 && attempt != r.Attempt:
		return r, ErrAttemptOver
	case r.State == Confirmed && to == Returned, r.State == Reserved && to != Returned: // as the SQL one
		r.State, r.ShopOrder, r.AttemptUntil = to, shopOrder, time.Time{}
	default:
		return r, ErrNotAllowed
	}
	a.rows[id] = r
	return r, nil
}

func (a *caseArchive) Sale(_ context.Context, id string) (kept ArchivedSale, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	plan, ok := a.plans[id]
	if !ok {
		return ArchivedSale{}, ErrUnknownSale
	}
	kept = ArchivedSale{Plan: plan, Left: a.sealed[id]}
	for _, r := range a.rows {
		if r.Sale == id && r.State == Confirmed {
			kept.Sold += r.Quantity
		}
	}
	return kept, nil
}

func (a *caseArchive) Each(_ context.Context, sale string, fn func(Reservation) error) error {
	a.mu.Lock()
	rows := slices.Collect(maps.Values(a.rows))
	a.mu.Unlock()
	for _, r := range rows {
		if r.Sale != sale {
			continue
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}
