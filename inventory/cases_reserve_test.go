package inventory

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStock_T18_AReleaseIsWholeAndOnce(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.BuyerLimit = 5 })
		o := order(sale, "ann", 5)
		v.reserve(t, o, Taken)
		v.level(t, sale.ID, 45, 5, 0)
		parallel(t, 20, func(i int) error {
			r, err := v.store.Release(ctx, sale.ID, o.ID, i%2)
			if err == nil && r.State != Released {
				err = fmt.Errorf("state %s", r.State)
			}
			return err
		})
		r, err := v.store.Release(ctx, sale.ID, o.ID, 0)
		v.settled(t, sale, Released, nil, r, err)
		v.level(t, sale.ID, 50, 0, 0)
		// Another quantity under that id is another order; it is refused.
		for _, q := range []int64{3, 4} {
			o.Quantity = q
			v.reserve(t, o, Mismatch)
		}
		v.level(t, sale.ID, 50, 0, 0)
		v.reserve(t, order(sale, "ann", 5), Taken) // his limit came back, once
		v.reserve(t, order(sale, "ann", 1), BuyerLimit)
	})
}

func TestStock_T18c_ReserveAndReleaseInAnyOrder(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		for n, steps := range permutations("RrLl") { // reserve, its retry, release, its retry
			o := order(sale, fmt.Sprint("u", n), 1)
			released := false
			for _, step := range steps {
				if step == 'L' || step == 'l' {
					_, err := v.store.Release(ctx, sale.ID, o.ID, 0)
					must(t, err)
					released = true
					continue
				}
				res, err := v.store.Reserve(ctx, o)
				must(t, err)
				if res.Granted && released {
					t.Fatalf("%s: granted after the release: %+v", steps, res)
				}
			}
			want := Released
			if steps[0] == 'L' || steps[0] == 'l' {
				want = Cancelled
				v.reserve(t, o, Tombstoned)
			}
			r, err := v.store.Find(ctx, o.ID)
			v.settled(t, sale, want, nil, r, err)
			v.level(t, sale.ID, 10, 0, 0)
		}
	})
}

// permutations of a short text.
func permutations(s string) []string {
	if len(s) < 2 {
		return []string{s}
	}
	var all []string
	for i := range s {
		for _, rest := range permutations(s[:i] + s[i+1:]) {
			all = append(all, s[i:i+1]+rest)
		}
	}
	return all
}

func TestStock_T18d_ReleaseAndRetryAfterTheKeysAreGone(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		archive := newCaseArchive()
		v.store.archive = archive
		sale := v.openSale(t, 50, shape)
		sold, back, cancelled := v.won(t, sale, "ann"), v.won(t, sale, "bob"), order(sale, "cid", 1)
		for _, o := range []Order{sold, back} {
			_, err := v.store.Confirm(ctx, sale.ID, o.ID, 1, "S")
			must(t, err)
		}
		_, err := v.store.Release(ctx, sale.ID, cancelled.ID, 0)
		must(t, err)
		late := v.replicaOf(t, "late", func(c *Config, _ *redis.Options) { c.Archive = archive })
		must(t, late.Refresh(ctx))
		v.advance(t, sale.ID, 2*time.Hour)
		_, err = v.store.SetDesired(ctx, sale.ID, DesiredCancelled) // on a real server the plan's end is not moved
		must(t, err)
		must(t, v.store.Cleanup(ctx, sale.ID))
		if n := v.client.Exists(ctx, bucketKeys(v, sale.ID)...).Val(); n != 0 {
			t.Fatalf("%d keys are still there", n)
		}
		for _, s := range []*Store{late, v.store, late} { // late does not know that the keys are gone
			r, err := s.Release(ctx, sale.ID, back.ID, 0)
			must(t, err)
			if r.State != Returned {
				t.Fatalf("%+v", r)
			}
			if kept, _ := archive.Sale(ctx, sale.ID); kept.Sold != 1 {
				t.Fatalf("%d units count as sold, want 1", kept.Sold)
			}
		}
		v.retriedFromTheArchive(t, sold, Known, Confirmed)
		v.retriedFromTheArchive(t, back, Known, Returned)
		v.retriedFromTheArchive(t, cancelled, Tombstoned, Cancelled)
		sold.Quantity = 2
		v.retriedFromTheArchive(t, sold, Mismatch, Confirmed)
		v.retriedFromTheArchive(t, order(sale, "dan", 1), NotRunning, "")
		if n := v.store.Stats().Stale; n != 0 {
			t.Fatalf("%d answers blamed a preheat that is not missing", n)
		}
	})
}

func TestStock_T18d_AReplicaThatMissedTheCleanupAsksTheArchive(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		archive := newCaseArchive()
		v.store.archive = archive
		sale := v.openSale(t, 50, nil)
		o := v.won(t, sale, "ann")
		late := func() *Store {
			s := v.replicaOf(t, "late", func(c *Config, _ *redis.Options) { c.Archive = archive })
			must(t, s.Refresh(ctx))
			return s
		}
		reserving, confirming, finding := late(), late(), late()
		_, err := v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		must(t, v.store.Cleanup(ctx, sale.ID))
		res, err := reserving.Reserve(ctx, o)
		must(t, err)
		if res.Code != Known || res.Granted || reserving.Stats().Stale != 0 {
			t.Fatalf("%+v", res)
		}
		r, err := confirming.Confirm(ctx, sale.ID, o.ID, 0, "S-1")
		must(t, err)
		if r.State != Confirmed {
			t.Fatalf("%+v", r)
		}
		if r, err = finding.Find(ctx, o.ID); err != nil || r.State != Confirmed {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// retriedFromTheArchive asks again for an order of a sale whose keys are gone.
func (v *env) retriedFromTheArchive(t *testing.T, o Order, want Code, state State) {
	t.Helper()
	res, err := v.store.Reserve(t.Context(), o)
	must(t, err)
	if res.Code != want || res.Granted || res.Reservation.State != state {
		t.Fatalf("code %d, want %d: %+v", res.Code, want, res)
	}
}

func bucketKeys(v *env, sale string) (all []string) {
	for _, b := range v.buckets(sale) {
		all = append(all, b.keys()...)
	}
	return all
}

func TestStock_T19_ASweeperAndADelayedMessageFreeOnce(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, shape)
		o := order(sale, "ann", 3)
		v.reserve(t, o, Taken)
		v.advance(t, sale.ID, sale.Hold)
		var freed atomic.Int64
		parallel(t, 20, func(i int) error {
			switch i % 3 {
			case 0:
				swept, err := v.store.Sweep(ctx, sale.ID)
				freed.Add(swept.Freed)
				return err
			case 1:
				_, err := v.store.Expire(ctx, sale.ID, o.ID)
				return err
			}
			_, err := v.store.Reserve(ctx, o)
			return err
		})
		if freed.Load() != 0 && freed.Load() != 3 {
			t.Fatalf("sweepers freed %d", freed.Load())
		}
		r, err := v.store.Find(ctx, o.ID)
		v.settled(t, sale, Expired, nil, r, err)
		v.level(t, sale.ID, 50, 0, 0)
	})
}

func TestStock_T20_ADueHoldIsBuyableThoughNoSweeperLives(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.Hold, s.MaxQuantity = time.Second+attempt, 10 })
		n := len(v.buckets(sale.ID))
		for i := range 5 {
			res, err := v.store.Reserve(t.Context(), order(sale, userAt(sale, i%n, n, i), 10))
			must(t, err)
			if !res.Granted {
				t.Fatalf("%+v", res)
			}
		}
		v.level(t, sale.ID, 0, 50, 0)
		v.reserve(t, order(sale, "early", 1), NoneFreeNow)
		v.advance(t, sale.ID, sale.Hold+100*time.Millisecond)
		for i := range n { // whatever his home
			res, err := v.store.Reserve(t.Context(), order(sale, userAt(sale, i, n, 9), 10))
			must(t, err)
			if !res.Granted {
				t.Fatalf("home %d: %+v", i, res)
			}
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestStock_T21_ACancelledHoldIsBuyableAtOnceAndMarksEnd(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.MaxQuantity = 50 })
		o := order(sale, "bulk", 50)
		res, err := v.store.Reserve(ctx, o)
		must(t, err)
		_, err = v.store.Confirm(ctx, sale.ID, o.ID, 1, "S")
		must(t, err)
		other := v.replicaOf(t, "other", nil)
		running(t, other)
		eventually(t, "sold out is seen", func() bool { view, _ := other.View(sale.ID); return view.SoldOut })
		_, err = v.store.Release(ctx, sale.ID, res.Reservation.ID, 0)
		must(t, err)
		at := time.Now()
		v.level(t, sale.ID, 50, 0, 0)
		eventually(t, "the mark ends", func() bool { view, _ := other.View(sale.ID); return !view.SoldOut })
		if d := time.Since(at); d > time.Second { // 500 ms, on a machine that may have other work
			t.Fatalf("sold out was told for %v after a unit came back", d)
		}
		v.won(t, sale, "ann")
	})
}

func TestStock_T22_AnOwnHoldDoesNotBlockTheOwnRetry(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, func(s *Sale) { s.BuyerLimit = 1 })
		o := order(sale, "ann", 1)
		first := v.reserve(t, o, TakenLast)
		again := v.reserve(t, o, Known)
		if again.Reservation != first.Reservation || again.Granted {
			t.Fatalf("%+v, want %+v", again, first)
		}
		v.advance(t, sale.ID, attempt) // the forward was lost: he may try again under his hold
		again = v.reserve(t, o, Known)
		r := again.Reservation
		if !again.Granted || r.Attempt != 2 || r.ExpiresAt.Sub(r.ReservedAt) != sale.Hold {
			t.Fatalf("%+v", again)
		}
		v.reserve(t, order(sale, "ann", 1), BuyerLimit) // with another id it is told why
		v.level(t, sale.ID, 0, 1, 0)
	})
}

func TestStock_T23_PaidAfterTheHoldExpired(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.MaxQuantity = 50 })
		n := len(v.buckets(sale.ID))
		late := v.won(t, sale, userAt(sale, 0, n, 0))
		again := v.won(t, sale, userAt(sale, 0, n, 1))
		v.advance(t, sale.ID, sale.Hold)
		rest := order(sale, userAt(sale, n-1, n, 2), 50) // everything is resold
		res, err := v.store.Reserve(ctx, rest)
		must(t, err)
		if !res.Granted {
			t.Fatalf("%+v", res)
		}
		for range 2 {
			r, err := v.store.Confirm(ctx, sale.ID, late.ID, 0, "S-1")
			v.settled(t, sale, RefundDue, nil, r, err)
		}
		v.level(t, sale.ID, 0, 50, 0)
		_, err = v.store.Release(ctx, sale.ID, rest.ID, 0) // now it lies far from home
		must(t, err)
		r, err := v.store.Confirm(ctx, sale.ID, again.ID, 0, "S-2")
		v.settled(t, sale, Confirmed, nil, r, err)
		v.level(t, sale.ID, 49, 0, 1)
	})
}

func TestStock_T24_ExpiryAgainstPaymentGivesOneOutcome(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		for i, late := range []time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond} {
			sale := v.openSale(t, 1, func(s *Sale) { s.ID, s.Item = fmt.Sprint("s", i), fmt.Sprint("i", i) })
			paid, other := v.won(t, sale, "ann"), order(sale, "bob", 1)
			v.advance(t, sale.ID, sale.Hold+late)
			parallel(t, 4, func(n int) (err error) {
				switch n {
				case 0:
					_, err = v.store.Sweep(ctx, sale.ID)
				case 1:
					_, err = v.store.Confirm(ctx, sale.ID, paid.ID, 0, "S-1")
				case 2:
					_, err = v.store.Reserve(ctx, other)
				default:
					if _, err = v.store.Expire(ctx, sale.ID, paid.ID); errors.Is(err, ErrNotAllowed) {
						err = nil
					}
				}
				return err
			})
			r, err := v.store.Find(ctx, paid.ID)
			must(t, err)
			b, err := v.store.Find(ctx, other.ID)
			resold := err == nil && b.State == Reserved
			if (r.State == Confirmed) == resold || (r.State != Confirmed && r.State != RefundDue) {
				t.Fatalf("%v after the deadline: %s, resold %v", late, r.State, resold)
			}
			checkInvariant(t, v.store, sale.ID)
		}
	})
}

func TestStock_T24_AHoldInPaymentGetsGraceOnceAndAnUnclearOneIsStuck(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 1, func(s *Sale) { s.Expiry = ExpiryAsk })
		o := v.won(t, sale, "ann")
		_, err := v.store.Accept(ctx, sale.ID, o.ID, 1, "S-1")
		must(t, err)
		v.advance(t, sale.ID, sale.Hold-time.Second)
		first, err := v.store.Extend(ctx, sale.ID, o.ID, 10*time.Second)
		v.settled(t, sale, Reserved, nil, first, err)
		again, err := v.store.Extend(ctx, sale.ID, o.ID, 10*time.Second)
		v.settled(t, sale, Reserved, nil, again, err)
		if again != first || !first.InPayment {
			t.Fatalf("%+v, then %+v", first, again)
		}
		v.advance(t, sale.ID, 5*time.Second)
		v.reserve(t, order(sale, "bob", 1), NoneFreeNow) // he is still paying
		v.advance(t, sale.ID, 10*time.Second)
		lost := order(sale, "bob", 1)
		v.reserve(t, lost, TakenLast) // now it is over

		// Bob's forward was lost, and the shop cannot say: his unit is kept.
		v.advance(t, sale.ID, sale.Hold)
		must(t, v.store.MarkStuck(ctx, sale.ID, lost.ID))
		v.reserve(t, order(sale, "cid", 1), NoneFreeNow)
		r, err := v.store.Find(ctx, lost.ID)
		v.settled(t, sale, Reserved, nil, r, err)
		if !r.Stuck {
			t.Fatalf("%+v", r)
		}
	})
}

func TestStock_T36_WhatComesBackIsOfferedInTimeAndOnlyAsOftenAsItIsThere(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 20, func(s *Sale) { shape(s); s.BuyerLimit = 0; s.Hold = 2 * time.Hour })
		held := make([]Order, 20)
		for i := range held {
			held[i] = v.won(t, sale, fmt.Sprint("u", i))
		}
		free := func(from, to int) {
			t.Helper()
			for _, o := range held[from:to] {
				r, err := v.store.Release(ctx, sale.ID, o.ID, 1)
				v.settled(t, sale, Released, nil, r, err)
			}
			must(t, v.store.Refresh(ctx))
		}
		offered := func(user string) int {
			t.Helper()
			return ask(t, 40, func(i int) (*Store, Order) { return v.store, order(sale, fmt.Sprint(user, i), 1) }).wins()
		}
		free(0, 7)
		if got := offered("in time"); got != 7 {
			t.Fatalf("%d of the 7 units that came back were sold", got)
		}
		v.level(t, sale.ID, 0, 20, 0)
		v.advance(t, sale.ID, sale.EndAt.Sub(v.redisNow(t)))
		free(7, 12)
		if got := offered("too late"); got != 0 {
			t.Fatalf("%d were sold after the end", got)
		}
		v.level(t, sale.ID, 5, 15, 0)
		checkInvariant(t, v.store, sale.ID)
	})
}
