package inventory

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// crossing is a history over several buckets and replicas. When a due hold is
// freed depends on which scripts run where, so the model leaves open only that:
// each order whose hold is over may be reserved or expired. All else is exact:
// who wins while units are there, limits, arrows, sums.
type crossing struct {
	history
	n      int // buckets
	stores []*Store
	faults []*fault
	loans  []loan
	to     []int
	road   int64 // on loan
	asked  map[string]time.Duration
}

// held are units that no script may free now, of a user or, with "", of all.
func (h *crossing) held(user string) (n int64) {
	for _, k := range h.m.orders {
		holds := k.state == Confirmed || (k.state == Reserved && !h.m.mayFree(k))
		if holds && (user == "" || k.User == user) {
			n += k.Quantity
		}
	}
	return n
}

func (h *crossing) left() int64 { return h.sale.Total - h.held("") }

func (h *crossing) overLimit(o Order) bool {
	return o.User != "" && h.held(o.User)+o.Quantity > h.sale.BuyerLimit
}

func (h *crossing) store() (*Store, *fault) {
	i := rapid.IntRange(0, len(h.stores)-1).Draw(h.t, "store")
	return h.stores[i], h.faults[i]
}

// reserve asks any replica.
func (h *crossing) reserve(s *Store, o Order) {
	if _, known := h.m.orders[o.ID]; known {
		res, err := s.Reserve(h.tb.Context(), o)
		code, granted := h.m.repeat(h.m.orders[o.ID], o)
		if err != nil || res.Code != code || res.Granted != granted {
			h.t.Fatalf("again %+v: code %d granted %v, %v; want %d %v", o, res.Code, res.Granted, err, code, granted)
		}
		return
	}
	over, left := h.overLimit(o), h.left()-h.road
	res, err := s.Reserve(h.tb.Context(), o)
	if err != nil {
		h.t.Fatalf("reserve %+v: %v", o, err)
	}
	won := res.Code == Taken || res.Code == TakenLast
	switch {
	case h.m.desired != DesiredOn:
		h.want(res.Code == NotRunning, res)
	case over:
		h.want(res.Code == BuyerLimit, res)
	case left >= o.Quantity:
		h.want(won && res.Granted, res)
		h.won(o, res.Reservation)
	default:
		h.want(!won, res)
		h.dry(res, left)
	}
}

func (h *crossing) want(ok bool, what any) {
	if !ok {
		h.t.Fatalf("%+v; left %d, on the road %d, desired %s", what, h.left(), h.road, h.m.desired)
	}
}

func (h *crossing) won(o Order, r Reservation) {
	hold := r.ExpiresAt.Sub(r.ReservedAt)
	h.want(hold >= h.sale.Hold, r)
	h.m.orders[o.ID] = &modelOrder{Order: o, state: Reserved, due: h.m.now + hold, till: h.m.now + o.AttemptFor, attempt: 1}
}

// dry: sold out is said when nothing is free, held or on the road, and then it is.
func (h *crossing) dry(res Result, left int64) {
	gone := left == 0 && h.road == 0 && h.reserved() == 0
	switch {
	case res.Code == NotEnough && res.Available == 0:
		h.want(gone, res)
	case res.Code == NotEnough:
		h.want(res.Available <= left, res)
	default:
		h.want(res.Code == NoneFreeNow && !gone, res)
	}
}

// reserved are units that the ledger holds, due ones that stand there too.
func (h *crossing) reserved() int64 {
	l, err := h.v.store.Level(h.tb.Context(), h.sale.ID)
	must(h.tb, err)
	return l.Reserved
}

// lost is a reserve in which one command fails somewhere, on the way there or back.
func (h *crossing) lost(s *Store, f *fault, o Order) {
	ctx := h.tb.Context()
	if _, known := h.m.orders[o.ID]; known {
		return
	}
	s.background.Wait() // what an earlier step left running
	f.hits, f.count, f.applied = 0, 1, rapid.Bool().Draw(h.t, "applied")
	f.next(rapid.IntRange(1, 6).Draw(h.t, "failing"))
	mayWin := h.m.desired == DesiredOn && !h.overLimit(o) && h.left()-h.road >= o.Quantity
	res, err := s.Reserve(ctx, o)
	s.background.Wait()
	f.next(never)
	must(h.tb, h.v.client.Del(ctx, leasesKey()).Err()) // it may have been taken unseen
	r, found := h.v.store.Find(ctx, o.ID)
	won := err == nil && (res.Code == Taken || res.Code == TakenLast)
	switch {
	case found == nil: // it holds units: told so, or not known
		h.want(mayWin && r.State == Reserved && (won || errors.Is(err, ErrOutcomeUnknown)), fmt.Sprint(r, res, err))
		h.won(o, r)
	case !errors.Is(found, ErrUnknownReservation):
		h.t.Fatal(found)
	default:
		soldOut := err == nil && res.Code == NotEnough && res.Available == 0
		h.want(!won && (!soldOut || h.left() == 0), fmt.Sprint(res, err))
	}
}

func (h *crossing) confirm(s *Store, id string, attempt int) {
	k, known := h.m.orders[id]
	late := known && k.state == Expired && !k.foreign(attempt)
	want := RefundDue
	if late && !h.overLimit(k.Order) && h.left() >= k.Quantity {
		want = Confirmed
	}
	r, err := s.Confirm(h.tb.Context(), h.sale.ID, id, attempt, "")
	if !late {
		h.same("confirm", err, h.m.confirm(id, attempt))
		return
	}
	if err != nil || r.State != want {
		h.t.Fatalf("late %+v: %s, %v, want %s (left %d, on the road %d)", k, r.State, err, want, h.left(), h.road)
	}
	k.state, k.till = want, 0
}

func (h *crossing) restoreOn(s *Store, o Order) {
	state := rapid.SampledFrom([]State{Reserved, Confirmed}).Draw(h.t, "state")
	r := restored(h.tb, h.v, s, o, state)
	if _, known := h.m.orders[o.ID]; known {
		_, err := s.Restore(h.tb.Context(), r)
		h.same("restore", err, h.m.restore(o, state, restoredFor))
		return
	}
	enough := h.left() >= o.Quantity
	got, err := s.Restore(h.tb.Context(), r)
	if !enough {
		h.same("restore", err, ErrDeficit)
		return
	}
	h.same("restore", err, nil)
	h.m.orders[o.ID] = &modelOrder{Order: o, state: state, attempt: 1, due: h.m.now + restoredFor + got.ExpiresAt.Sub(r.ExpiresAt)}
}
