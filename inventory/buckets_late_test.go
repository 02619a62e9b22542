package inventory

import (
	"testing"
)

func TestBuckets_ALatePaymentIsConfirmedByALoan(t *testing.T) { // T-23
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.spreadSale(t, []int64{1, 2, 0}, nil)
		late := order(sale, homeUser(sale.ID, 3, 0, 0), 1)
		v.reserve(t, late, TakenLast)
		v.advance(t, sale.ID, sale.Hold)
		_, err := v.store.Sweep(ctx, sale.ID)
		must(t, err)
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 0, 1), 1), TakenLast) // resold at home
		v.holds(t, sale.ID, 0, 2, 0)
		r, err := v.store.Confirm(ctx, sale.ID, late.ID, 0, "S-1")
		v.settled(t, sale, Confirmed, nil, r, err)
		v.holds(t, sale.ID, 0, 1, 0)

		next := order(sale, homeUser(sale.ID, 3, 2, 0), 1) // the last unit comes by a loan
		v.reserve(t, next, TakenLast)
		v.advance(t, sale.ID, sale.Hold)
		for range 2 { // those of the one resold and of this one
			v.reserve(t, order(sale, homeUser(sale.ID, 3, 1, 5), 1), TakenLast)
		}
		r, err = v.store.Confirm(ctx, sale.ID, next.ID, 0, "S-2") // nobody has one
		v.settled(t, sale, RefundDue, nil, r, err)
		v.level(t, sale.ID, 0, 2, 28)
	})
}

func TestBuckets_ALatePaymentIsNotRefundedWhileItsUnitIsOnTheRoad(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for step := 1; ; step++ {
				v.fresh(t)
				sale, late := v.dueAndDry(t)
				f := &fault{from: never, applied: applied}
				s := v.another(t, "b", f)
				must(t, s.redis.Ping(t.Context()).Err()) // pipelines have connections of their own
				f.count = 1
				f.next(step)
				r, err := s.Confirm(t.Context(), sale.ID, late.ID, 0, "S-1")
				if f.hits == 0 {
					v.settled(t, sale, Confirmed, nil, r, err)
					break
				}
				if err == nil && r.State != Confirmed {
					t.Fatalf("step %d applied %v: told %s while a unit was free", step, applied, r.State)
				}
				checkBooks(t, v.store, sale.ID)
				r, err = v.store.Confirm(t.Context(), sale.ID, late.ID, 0, "S-1") // what the caller does
				v.settled(t, sale, Confirmed, nil, r, err)
				checkBooks(t, v.store, sale.ID)
			}
		}
	})
}

// dueAndDry is an expired order whose home is dry, while another bucket has a unit.
func (v *env) dueAndDry(t *testing.T) (Sale, Order) {
	t.Helper()
	sale := v.spreadSale(t, []int64{1, 1}, nil)
	late := order(sale, homeUser(sale.ID, 2, 0, 0), 1)
	v.reserve(t, late, TakenLast)
	v.advance(t, sale.ID, sale.Hold)
	_, err := v.store.Sweep(t.Context(), sale.ID)
	must(t, err)
	v.reserve(t, order(sale, homeUser(sale.ID, 2, 0, 1), 1), TakenLast)
	v.holds(t, sale.ID, 0, 1)
	return sale, late
}

func TestBuckets_ALatePayersOwnDueHoldDoesNotCountToHisLimit(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		first := v.won(t, sale, "ann")
		v.advance(t, sale.ID, sale.Hold)
		_, err := v.store.Sweep(t.Context(), sale.ID)
		must(t, err)
		v.won(t, sale, "ann")
		v.advance(t, sale.ID, sale.Hold) // over too, and nobody has freed it yet
		r, err := v.store.Confirm(t.Context(), sale.ID, first.ID, 0, "S-1")
		v.settled(t, sale, Confirmed, nil, r, err)
		v.level(t, sale.ID, 9, 0, 1)
	})
}
