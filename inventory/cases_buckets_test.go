package inventory

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// stockOnlyIn moves all free units into one bucket, by loans.
func (v *env) stockOnlyIn(t *testing.T, sale Sale, to int) {
	t.Helper()
	e, err := v.store.entry(t.Context(), sale.ID)
	must(t, err)
	heads, err := v.store.readHeads(t.Context(), e.live)
	must(t, err)
	for i, h := range heads {
		if i == to || h.level.Free == 0 {
			continue
		}
		l := loan{id: newLoanID(), units: h.level.Free, from: i}
		n, err := v.store.lend(t.Context(), e, l, to, false)
		must(t, err)
		if n != l.units {
			t.Fatalf("bucket %d lent %d of %d", i, n, l.units)
		}
		v.store.flight(t.Context(), e, e.cells[to], l, nil)
	}
	must(t, v.store.Refresh(t.Context()))
	checkInvariant(t, v.store, sale.ID)
}

func TestStock_T13_ADryHomeBucketIsNoSoldOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.Settle = 5, SettleAccept })
		v.stockOnlyIn(t, sale, 1)
		for i := range 50 {
			res, err := v.store.Reserve(t.Context(), order(sale, userAt(sale, 0, 5, i), 1))
			must(t, err)
			if !res.Granted {
				t.Fatalf("unit %d lay in another bucket, and was not found: %+v", i, res)
			}
			_, err = v.store.Confirm(t.Context(), sale.ID, res.Reservation.ID, 1, "S")
			must(t, err)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 0, 50)

		// All is sold. A hundred buyers of one dry bucket share their looks.
		s := v.replicaOf(t, "counted", nil)
		must(t, s.Refresh(t.Context()))
		n := &counting{}
		s.redis.AddHook(n)
		got := ask(t, 100, func(i int) (*Store, Order) { return s, order(sale, userAt(sale, 3, 5, i), 1) })
		if got.of(NotEnough) != 100 {
			t.Fatal(got)
		}
		if view, _ := s.View(sale.ID); !view.SoldOut {
			t.Fatalf("nobody noted that it is sold out: %+v", view)
		}
		// One by one it would be 13: a script, two looks at five levels, a lease.
		if c := n.commands.Load(); c > 2*100 {
			t.Fatalf("%d commands for 100 buyers", c)
		}
	})
}

// TestStock_T13b: nine of ten buckets are empty, three replicas, 500 buyers at
// once. A command is what a client sends, in a pipeline or alone.
func TestStock_T13b_CallsPerBuyerAreBounded(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		const buyers, bound = 500, 2 // commands a buyer
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets = 10 })
		v.stockOnlyIn(t, sale, 9)
		n := &counting{}
		stores := make([]*Store, 3)
		for i := range stores {
			stores[i] = v.replicaOf(t, fmt.Sprint("r", i), func(_ *Config, o *redis.Options) { o.PoolSize = 64 })
			must(t, stores[i].Refresh(t.Context()))
			stores[i].redis.AddHook(n)
		}
		got := ask(t, buyers, func(i int) (*Store, Order) { return stores[i%3], order(sale, fmt.Sprint("u", i), 1) })
		if got.wins() != 100 || got.of(NoneFreeNow) != buyers-100 {
			t.Fatal(got)
		}
		if c := n.commands.Load(); c > bound*buyers {
			t.Fatalf("%d commands for %d buyers: %.1f each", c, buyers, float64(c)/buyers)
		}
		checkInvariant(t, v.store, sale.ID)

		// A unit that comes back anywhere is buyable at once from everywhere.
		var back Reservation
		must(t, v.store.Ledger(t.Context(), sale.ID, func(r Reservation) error { back = r; return nil }))
		_, err := v.store.Release(t.Context(), sale.ID, back.ID, 0)
		must(t, err)
		v.won(t, sale, userAt(sale, (back.Bucket+1)%10, 10, 0))
	})
}

func TestStock_T13c_AnOrderOfTwoIsServedFromScatteredUnits(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.MaxQuantity = 10, 9 })
		for i := range 10 {
			o := order(sale, userAt(sale, i, 10, 0), 9)
			v.reserve(t, o, Taken)
		}
		v.level(t, sale.ID, 10, 90, 0) // one unit in each of ten buckets
		got := ask(t, 7, func(i int) (*Store, Order) { return v.store, order(sale, userAt(sale, i, 10, 1), 2) })
		if got.wins() != 5 || got.of(NoneFreeNow) != 2 {
			t.Fatal(got)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 100, 0)
	})
}

func TestStock_T13c_AnOrderThatIsTooLargeTakesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.MaxQuantity = 10, 9 })
		for i := range 10 {
			v.reserve(t, order(sale, userAt(sale, i, 10, 0), 9), Taken)
		}
		v.reserve(t, order(sale, userAt(sale, 0, 10, 1), 9), TakenLast)
		res, err := v.store.Reserve(t.Context(), order(sale, userAt(sale, 5, 10, 1), 2))
		must(t, err)
		if res.Code != NotEnough || res.Available != 1 {
			t.Fatalf("%+v", res)
		}
		if view, _ := v.store.View(sale.ID); view.SoldOut {
			t.Fatal("an order that was too large marked the sale as sold out")
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 1, 99, 0)
	})
}

// Another run of the server, and the first buyers
// have a dry home. The buckets with units are armed for them.
func TestStock_T13_AfterARestartStockComesFromBucketsThatNobodyAskedYet(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 50, func(s *Sale) { s.Buckets = 5 })
	v.stockOnlyIn(t, sale, 1)
	v.restart(t, "")
	v.won(t, sale, userAt(sale, 0, 5, 0))

	// A unit on the road, lent by a bucket and for one that nobody asks.
	e, err := v.store.entry(t.Context(), sale.ID)
	must(t, err)
	_, err = v.store.lend(t.Context(), e, loan{id: newLoanID(), units: 2, from: 1}, 3, false)
	must(t, err)
	v.restart(t, "")
	for range 3 { // one reading to see it, one to see that it stays
		must(t, v.store.Refresh(t.Context()))
	}
	l, err := v.store.Level(t.Context(), sale.ID)
	must(t, err)
	if l.OnLoan != 0 || l.Buckets[3].Free != 2 {
		t.Fatalf("the loan is still on the road: %+v", l)
	}
	checkInvariant(t, v.store, sale.ID)
}

func TestStock_T20_AfterARestartDueHoldsAreFreedByARefresh(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.MaxQuantity = 5, 50 })
	res, err := v.store.Reserve(t.Context(), order(sale, "bulk", 50))
	must(t, err)
	if !res.Granted {
		t.Fatalf("%+v", res)
	}
	v.restart(t, "")
	v.advance(t, sale.ID, sale.Hold)
	must(t, v.store.Refresh(t.Context()))
	v.level(t, sale.ID, 50, 0, 0)
	checkInvariant(t, v.store, sale.ID)
}
