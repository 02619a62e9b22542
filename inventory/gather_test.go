package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd is three replicas with counters on their links.
type crowd struct {
	stores [3]*Store
	links  [3]*calls
}

func (v *env) crowd(t testing.TB) *crowd {
	c := &crowd{}
	for i := range c.stores {
		c.links[i] = &calls{}
		c.stores[i] = v.another(t, fmt.Sprint("r", i), c.links[i])
	}
	return c
}

func (c *crowd) scripts() (n int64) {
	for _, l := range c.links {
		n += l.scripts.Load()
	}
	return n
}

// buy has n buyers come, so many at once, one unit each, and counts codes.
func (c *crowd) buy(t *testing.T, sale Sale, n, atOnce int, user func(i int) string) map[Code]int {
	t.Helper()
	var mu sync.Mutex
	codes := map[Code]int{}
	var next atomic.Int64
	parallel(t, atOnce, func(int) error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			res, err := c.stores[i%3].Reserve(t.Context(), order(sale, user(i), 1))
			if err != nil {
				return err
			}
			mu.Lock()
			codes[res.Code]++
			mu.Unlock()
		}
		return nil
	})
	for _, s := range c.stores {
		s.background.Wait()
	}
	return codes
}

// maxCalls is the stated bound: scripts per buyer, all of them counted (orders,
// leases, readings of each bucket, loans), when 9 of 10 buckets are empty. By
// ring walk it is 5.5.
const maxCalls = 2.0

// TestGather_NineOfTenBucketsEmptyCostsAtMostTwoCallsABuyer: 500 buyers on
// three replicas, all units in one bucket. Everything sells.
func TestGather_NineOfTenBucketsEmptyCostsAtMostTwoCallsABuyer(t *testing.T) { // T-13b, H-19
	for _, atOnce := range []int{500, 50, 12} {
		t.Run(fmt.Sprint(atOnce, " at once"), func(t *testing.T) {
			v := realEnv(t)
			const buyers = 500
			sale := v.spreadSale(t, []int64{buyers, 0, 0, 0, 0, 0, 0, 0, 0, 0}, nil)
			c := v.crowd(t)
			before := c.scripts()
			codes := c.buy(t, sale, buyers, atOnce, func(i int) string { return fmt.Sprint("b", i) })
			perBuyer := float64(c.scripts()-before) / buyers
			if codes[Taken]+codes[TakenLast] != buyers {
				t.Fatalf("of %d units and buyers: %v", buyers, codes)
			}
			v.level(t, sale.ID, 0, buyers, 9*buyers)
			t.Logf("%.2f scripts a buyer", perBuyer)
			if perBuyer > maxCalls {
				t.Errorf("%.2f scripts a buyer, the bound is %.1f", perBuyer, maxCalls)
			}
			checkBooks(t, v.store, sale.ID)
		})
	}
}

// TestGather_WhoComesTooLateSharesTheReadings: nothing is free any more, all is
// held. 500 who come at once are answered by few readings of the ten buckets.
func TestGather_WhoComesTooLateSharesTheReadings(t *testing.T) { // T-13
	v := realEnv(t)
	const buyers = 500
	sale := v.spreadSale(t, []int64{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, nil)
	v.reserve(t, order(sale, homeUser(sale.ID, 10, 0, 0), 1), TakenLast)
	c := v.crowd(t)
	before := c.scripts()
	codes := c.buy(t, sale, buyers, buyers, func(i int) string { return fmt.Sprint("late", i) })
	perBuyer := float64(c.scripts()-before) / buyers
	t.Logf("%.2f scripts a late buyer", perBuyer)
	if perBuyer > maxCalls || codes[NoneFreeNow] != buyers {
		t.Errorf("%.2f scripts a late buyer, the bound is %.1f: %v", perBuyer, maxCalls, codes)
	}
}

func TestGather_OrdersOfTwoAreServedFromScatteredSingleUnits(t *testing.T) { // T-13c, trap 13
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, nil)
		c := v.crowd(t)
		parallel(t, 5, func(i int) error {
			res, err := c.stores[i%3].Reserve(t.Context(), order(sale, homeUser(sale.ID, 10, 2*i, 0), 2))
			if err == nil && res.Code != Taken && res.Code != TakenLast {
				err = fmt.Errorf("%+v", res)
			}
			return err
		})
		v.level(t, sale.ID, 0, 10, 90)
		v.holds(t, sale.ID, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	})
}

func TestGather_TooFewIsNotSoldOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{1, 1, 1, 0, 0}, nil)
		for range 3 {
			res := v.reserve(t, order(sale, homeUser(sale.ID, 5, 4, 0), 4), NotEnough)
			if res.Available != 3 {
				t.Fatalf("%+v", res)
			}
			if view, _ := v.store.View(sale.ID); view.SoldOut {
				t.Fatal("a mark while three units are free")
			}
		}
		v.reserve(t, order(sale, homeUser(sale.ID, 5, 3, 0), 3), TakenLast)
	})
}

func TestGather_SoldOutIsSaidOnlyWhenNothingIsHeldOrOnTheRoad(t *testing.T) { // S2-5, S1-14
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.spreadSale(t, []int64{2, 0, 0}, nil)
		told := func(what string, want Code) {
			t.Helper()
			res := v.reserve(t, order(sale, homeUser(sale.ID, 3, 2, 0), 1), want)
			view, _ := v.store.View(sale.ID)
			if view.SoldOut != (want == NotEnough) || res.Available != 0 {
				t.Fatalf("%s: %+v, mark %v", what, res, view.SoldOut)
			}
		}
		l := loan{id: newLoanID(), units: 1, from: 0}
		_, err := v.lendBy(t, v.store, sale.ID, l, 1)
		must(t, err)
		o := order(sale, homeUser(sale.ID, 3, 0, 0), 1)
		v.reserve(t, o, TakenLast)
		told("a hold and a loan", NoneFreeNow)
		_, err = v.store.Confirm(ctx, sale.ID, o.ID, 1, "S-1")
		must(t, err)
		told("a loan", NoneFreeNow)
		must(t, v.acceptBy(t, v.store, sale.ID, l, 1))
		o = order(sale, homeUser(sale.ID, 3, 2, 0), 1)
		v.reserve(t, o, TakenLast)
		told("a hold in his own bucket", NoneFreeNow)
		_, err = v.store.Confirm(ctx, sale.ID, o.ID, 1, "S-2")
		must(t, err)
		told("all are sold", NotEnough)
		_, err = v.store.Release(ctx, sale.ID, o.ID, 0)
		must(t, err)
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 1, 0), 1), TakenLast) // T-21: at once, whatever the mark says
	})
}

func TestGather_AWaiterWhoseUnitsKeepSlippingAwayIsToldToComeAgain(t *testing.T) {
	e := &entry{live: newLive(record{Plan: planned(), Tags: []string{"w0", "w1"}})}
	for _, c := range []struct {
		free, reserved int64
		still          bool
		want           Code
		available      int64
	}{
		{5, 0, true, NoneFreeNow, 0}, // enough, but others were faster, twice
		{1, 0, true, NotEnough, 1},
		{1, 0, false, NotEnough, 1},
		{0, 1, true, NoneFreeNow, 0},
		{0, 0, false, NoneFreeNow, 0}, // two readings that differ prove nothing
		{0, 0, true, NotEnough, 0},
	} {
		e.sold.Store(nil)
		w := &waiter{passenger: *newPassenger(Order{Quantity: 2}), passes: maxPasses}
		g := gathering{e: e, s: &Store{}, waiting: []*waiter{w}}
		heads := []*head{{level: BucketLevel{Free: c.free, Reserved: c.reserved}}, {}}
		told, back := g.decide(heads, c.still, 0)
		if len(told) != 1 || len(back) != 0 || w.verdict.code != int64(c.want) || (c.want == NotEnough && w.verdict.number != c.available) {
			t.Errorf("%+v: told %d (%d)", c, w.verdict.code, w.verdict.number)
		}
		if marked := e.sold.Load() != nil; marked != (c.want == NotEnough && c.available == 0) {
			t.Errorf("%+v: mark %v", c, marked)
		}
	}
}

func TestGather_TheLineIsBoundedAndMayBeLeft(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{1, 0}, nil)
		e, err := v.store.entry(t.Context(), sale.ID)
		must(t, err)
		o := order(sale, homeUser(sale.ID, 2, 1, 0), 1)
		e.line.running = true // a gatherer that never comes
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		res, err := v.store.Reserve(short, o)
		if err != nil || res.Code != NoneFreeNow || len(e.line.waiting) != 0 {
			t.Fatalf("left the line: %+v, %v, %d wait", res, err, len(e.line.waiting))
		}
		e.line.waiting = make([]*waiter, maxLine)
		if res, err := v.store.Reserve(t.Context(), o); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("one more than %d: %+v, %v", maxLine, res, err)
		}
		e.line.waiting, e.line.running = nil, false
		v.reserve(t, o, TakenLast)
	})
}

func TestGather_ADeadGatherersLeaseRunsOut(t *testing.T) {
	v := realEnv(t)
	sale := v.spreadSale(t, []int64{1, 0}, nil)
	e, err := v.store.entry(t.Context(), sale.ID)
	must(t, err)
	ok, err := v.another(t, "dead").Lease(t.Context(), gatherJob(e), 300*time.Millisecond)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	begin := time.Now()
	v.reserve(t, order(sale, homeUser(sale.ID, 2, 1, 0), 1), TakenLast)
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Fatalf("two gatherers: after %v", took)
	}
}

func TestGather_WithoutALeaseNobodyIsToldSoldOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{1, 0}, nil)
		must(t, v.client.Del(t.Context(), leasesKey()).Err())
		must(t, v.client.Set(t.Context(), leasesKey(), "no hash", 0).Err())
		o := order(sale, homeUser(sale.ID, 2, 1, 0), 1)
		for range 3 {
			if res := v.reserve(t, o, NoneFreeNow); !res.Until.IsZero() {
				t.Fatalf("%+v", res)
			}
		}
		if view, _ := v.store.View(sale.ID); view.SoldOut {
			t.Fatal("a mark")
		}
		must(t, v.client.Del(t.Context(), leasesKey()).Err())
		v.reserve(t, o, TakenLast)
	})
}

// TestGather_ManyAtOnceDoNoHarm: the leases vanish all the time, so that all
// three replicas gather at once, each from the same rich bucket.
func TestGather_ManyAtOnceDoNoHarm(t *testing.T) {
	eachStorm(t, func(t *testing.T, v *env, buyers int) {
		sale := v.spreadSale(t, []int64{0, 0, 0, 40, 0}, nil)
		c := v.crowd(t)
		stop := make(chan struct{})
		var thief sync.WaitGroup
		var stolen atomic.Int64
		thief.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					stolen.Add(v.client.Del(context.Background(), leasesKey()).Val())
				}
			}
		})
		codes := c.buy(t, sale, buyers/2, buyers/2, func(i int) string { return fmt.Sprint("b", i) })
		close(stop)
		thief.Wait()
		if stolen.Load() == 0 {
			t.Fatal("no lease was ever stolen")
		}
		if codes[Taken]+codes[TakenLast] != 40 || codes[NoneFreeNow] != buyers/2-40 {
			t.Fatalf("of 40 units and %d buyers: %v", buyers/2, codes)
		}
		v.holds(t, sale.ID, 0, 0, 0, 0, 0)
	})
}

// TestGather_ALeaseThatRunsOutInTheMiddle: a gatherer stands still between its
// lend and its accept; another one works meanwhile, the first then goes on.
func TestGather_ALeaseThatRunsOutInTheMiddle(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{4, 0, 0}, nil)
		slow := v.another(t, "slow")
		e, err := slow.entry(t.Context(), sale.ID)
		must(t, err)
		o := order(sale, homeUser(sale.ID, 3, 1, 0), 2)
		w := &waiter{passenger: *newPassenger(o), home: 1}
		g := gathering{s: slow, e: e, waiting: []*waiter{w}}
		g.heads, err = slow.readHeads(t.Context(), e.live)
		must(t, err)
		loans := g.borrow(t.Context(), 1, 2)
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 2, 0), 2), TakenLast)   // by another gatherer
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 2, 1), 1), NoneFreeNow) // two are on the road
		must(t, v.store.repair(t.Context(), sale.ID))                         // which ends here
		v.holds(t, sale.ID, 0, 2, 0)                                          //
		g.send(t.Context(), e.cells[1], loans[0], g.here(1))                  // the slow one wakes up
		if <-w.done; w.err != nil || w.answer.code != int64(TakenLast) || len(loans) != 1 {
			t.Fatalf("%+v, %v", w.answer, w.err)
		}
		v.holds(t, sale.ID, 0, 0, 0)
	})
}
