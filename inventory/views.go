package inventory

import (
	"context"
	"time"
)

// entry is one sale in a snapshot. It is never changed after it was published,
// except through live.
type entry struct {
	*live
	view View
	tag  string // prefix of its order ids
	// desiredVersion is the record's; the buckets' may lag behind.
	desiredVersion int64
	deleted        int64 // when its keys were gone, ms; 0 = they are not
}

// seen is how many changes this replica saw of all buckets.
func (e *entry) seen() (n int64) {
	for _, c := range e.cells {
		n += c.watch.seen()
	}
	return n
}

// snapshot is all that a replica knows, replaced as a whole.
type snapshot struct {
	bySale map[string]*entry
	byItem map[string][]*entry
	list   []*entry
	// redisAt is the Redis time of the reading that arrived at localAt.
	redisAt, localAt time.Time
	at               int64 // when the reading was asked for, ns of the store's clock
	replicas         int64
	replaced         chan struct{} // closed when a newer one is there
}

// now is the Redis time, carried on by the local monotonic clock.
func (s *snapshot) now() time.Time { return s.redisAt.Add(time.Since(s.localAt)) }

func (e *entry) look(now int64) View {
	v := e.view
	v.SoldOut = e.soldOut(now)
	return v
}

// gone: its keys are deleted, the archive has it.
func (e *entry) gone() bool { return e.view.Gone }

// View is what is known of a preheated sale, also of one that only the archive
// has, if it was asked for lately. No I/O, no allocation, and no lock for a sale
// in the list.
func (s *Store) View(sale string) (View, bool) {
	e, ok := s.views.Load().bySale[sale]
	if !ok {
		if e, ok = s.pastSales.Peek(sale); !ok {
			return View{}, false
		}
	}
	return e.look(s.nano()), true
}

// Look is View, and asks Redis and the archive for a sale that this replica does
// not know. Errors: ErrUnknownSale, ErrUnavailable.
func (s *Store) Look(ctx context.Context, sale string) (View, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return View{}, err
	}
	return e.look(s.nano()), nil
}

// ViewOfItem is the sale of an item that matters now: the open one, else the
// next, else the last. No I/O, no lock, no allocation.
func (s *Store) ViewOfItem(item string) (View, bool) {
	snap := s.views.Load()
	list := snap.byItem[item]
	if len(list) == 0 {
		return View{}, false
	}
	best, now := list[0], snap.now()
	for _, e := range list[1:] {
		if better(e.view, best.view, now) {
			best = e
		}
	}
	return best.look(s.nano()), true
}

// better: open before pending before ended before cancelled; among pending the
// earliest, among the others the latest.
func better(a, b View, now time.Time) bool {
	ra, rb := rank(a, now), rank(b, now)
	switch {
	case ra != rb:
		return ra < rb
	case ra == 1:
		return a.Sale.StartAt.Before(b.Sale.StartAt)
	}
	return a.Sale.StartAt.After(b.Sale.StartAt)
}

func rank(v View, now time.Time) int {
	if v.Desired == DesiredCancelled {
		return 3
	}
	switch v.Sale.stateAt(now) {
	case SaleRunning:
		return 0
	case SalePending:
		return 1
	}
	return 2
}

// Views lists all preheated sales by id. No I/O, no lock.
func (s *Store) Views() []View {
	snap := s.views.Load()
	views := make([]View, len(snap.list))
	for i, e := range snap.list {
		views[i] = e.look(s.nano())
	}
	return views
}
