package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

func TestFlights_OneIdSeveralTimesInOneBatch(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, nil)
		r.block()
		o, other := order(r.sale, "ann", 1), order(r.sale, "bob", 1)
		all := r.queue(o, o, other, o, o, o)
		same(t, "flights", r.fly(), []int{6})
		same(t, "codes", codes(t, all), []Code{Taken, Known, Taken, Known, Known, Known})
		for i, k := range all {
			if k.res.Granted != (i == 0 || i == 2) || k.res.Reservation.ID != k.order.ID {
				t.Fatalf("%d: %+v", i, k.res)
			}
		}
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 8, 2, 0)
	})
}

func TestFlights_OneUserSeveralTimesInOneBatch(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, func(s *Sale) { s.BuyerLimit = 3 })
		r.block()
		ann := func(q int64) Order { return order(r.sale, "ann", q) }
		all := r.queue(ann(2), ann(2), ann(1), ann(1), order(r.sale, "bob", 3))
		same(t, "flights", r.fly(), []int{5})
		same(t, "codes", codes(t, all), []Code{Taken, BuyerLimit, Taken, BuyerLimit, Taken})
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 4, 6, 0)
	})
}

func TestFlights_TheLastUnitInsideOneBatch(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 6, nil)
		first, err := v.store.Find(t.Context(), v.won(t, r.sale, "first").ID)
		must(t, err)
		r.block()
		var orders []Order
		for i, q := range []int64{2, 2, 2, 1, 1, 1} {
			orders = append(orders, order(r.sale, fmt.Sprint("u", i), q))
		}
		all := r.queue(orders...)
		same(t, "flights", r.fly(), []int{6})
		same(t, "codes", codes(t, all), []Code{Taken, Taken, NotEnough, TakenLast, NoneFreeNow, NoneFreeNow})
		if all[2].res.Available != 1 {
			t.Fatalf("%+v", all[2].res)
		}
		if !all[4].res.Until.Equal(first.ExpiresAt) {
			t.Fatalf("until %v, the first hold ends %v", all[4].res.Until, first.ExpiresAt)
		}
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 0, 6, 0)
	})
}

func TestFlights_ABadOrderHarmsNoOther(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, nil)
		good := func(user string) Order { return order(r.sale, user, 1) }
		many, item, long, broken, cancelled := good("a"), good("b"), good("c"), good("d"), good("e")
		many.Quantity = r.sale.MaxQuantity + 1
		item.Item = "1002"
		long.AttemptFor = r.sale.Hold + time.Second
		ledger := v.bucket(r.sale.ID).ledgerKey()
		must(t, v.client.HSet(t.Context(), ledger, shorten(broken.ID), "r 1 what").Err())
		_, err := v.store.Release(t.Context(), r.sale.ID, cancelled.ID, 0)
		must(t, err)
		known := v.won(t, r.sale, "known")
		mismatch := known
		mismatch.Quantity = 2

		r.block()
		all := r.queue(good("f"), many, item, good("g"), long, broken, cancelled, mismatch, good("h"))
		same(t, "flights", r.fly(), []int{9})
		for i, want := range []error{nil, ErrInvalidOrder, ErrInvalidOrder, nil, ErrInvalidOrder, ErrUnavailable, nil, nil, nil} {
			if !errors.Is(all[i].err, want) {
				t.Errorf("%d: %v, want %v", i, all[i].err, want)
			}
		}
		same(t, "codes", codes(t, []*ticket{all[0], all[3], all[6], all[7], all[8]}), []Code{Taken, Taken, Tombstoned, Mismatch, Taken})
		must(t, v.client.HDel(t.Context(), ledger, shorten(broken.ID)).Err())
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 6, 4, 0)
	})
}

func TestFlights_CarryAtMost128OrdersTwoAtATime(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 1000, nil)
		before, sent := r.s.Stats(), r.proxy.Count("EVALSHA")
		r.block()
		var orders []Order
		for i := range 300 {
			orders = append(orders, order(r.sale, fmt.Sprint("u", i), 1))
		}
		all := r.queue(orders...)
		r.g.step()
		eventually(t, "two full flights depart", func() bool { held, _, c := r.g.state(); return held == 2 && len(c) == 4 })
		same(t, "left behind", r.waiting(), 300-2*maxBatch)
		same(t, "flights", r.fly(), []int{128, 128, 44})
		if _, most, _ := r.g.state(); most != maxFlights {
			t.Fatalf("%d scripts were on their way at once", most)
		}
		for _, c := range codes(t, all) {
			same(t, "code", c, Taken)
		}
		after := r.s.Stats()
		same(t, "counted", []int64{after.Flights - before.Flights, after.Orders - before.Orders}, []int64{3 + 2, 300 + 2})
		// The two blockers were never sent.
		same(t, "EVALSHA", r.proxy.Count("EVALSHA")-sent, 3)
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 700, 300, 0)
	})
}

func TestFlights_CarryAtMost64KB(t *testing.T) {
	var f flights
	wide := func(n int) *passenger { return newPassenger(Order{User: strings.Repeat("u", n)}) }
	for range 100 {
		f.waiting = append(f.waiting, wide(1000))
	}
	f.waiting = append(f.waiting, wide(maxBytes+1), wide(1))
	for _, want := range []int{61, 39, 1, 1} { // 61 × 1064 bytes fit; one that is too wide goes alone
		bytes, all := 0, f.board(maxBatch)
		for _, p := range all {
			bytes += p.bytes()
		}
		if len(all) != want || len(all) > 1 && bytes > maxBytes {
			t.Fatalf("%d orders of %d bytes, want %d orders", len(all), bytes, want)
		}
	}
	if f.board(maxBatch) != nil || f.waiting != nil {
		t.Fatal("somebody is left behind")
	}
	// Nobody goes alone with more, either.
	o := order(planned(), "ann", 1)
	o.Item = strings.Repeat("i", 65)
	if err := o.check(); !errors.Is(err, ErrInvalidOrder) {
		t.Fatalf("an order that is wider than any item: %v", err)
	}
}

func TestFlights_WhoLeavesBeforeDepartureWasNotSentAndAfterItIsUnknown(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, nil)
		r.block()
		all := r.queue(order(r.sale, "early", 1), order(r.sale, "late", 1), order(r.sale, "patient", 1))
		early, late, patient := all[0], all[1], all[2]
		early.leave()
		<-early.done
		if !errors.Is(early.err, ErrUnavailable) || errors.Is(early.err, ErrOutcomeUnknown) || !errors.Is(early.err, context.Canceled) {
			t.Fatalf("before departure: %v", early.err)
		}
		r.g.step()
		eventually(t, "the flight departs", func() bool { held, _, c := r.g.state(); return held == 1 && len(c) == 3 })
		late.leave()
		<-late.done
		if !errors.Is(late.err, ErrOutcomeUnknown) || errors.Is(late.err, ErrUnavailable) {
			t.Fatalf("after departure: %v", late.err)
		}
		same(t, "flights", r.fly(), []int{2})
		same(t, "codes", codes(t, []*ticket{patient}), []Code{Taken})
		if _, err := v.store.Find(t.Context(), early.order.ID); !errors.Is(err, ErrUnknownReservation) {
			t.Fatalf("it was sent though it was told that it was not: %v", err)
		}
		v.reserve(t, late.order, Known)
		v.reserve(t, early.order, Taken)
		v.level(t, r.sale.ID, 7, 3, 0)
	})
}

func TestFlights_HaveADeadlineOfTheirOwn(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, nil)
		r.block()
		all := r.queue(order(r.sale, "a", 1), order(r.sale, "b", 1)) // without any deadline
		hung := r.proxy.HangReply("EVALSHA", 1)
		at := time.Now()
		same(t, "flights", r.fly(), []int{2})
		if d := time.Since(at); d < flightTime-100*time.Millisecond || d > flightTime+3*time.Second {
			t.Fatalf("a flight that hangs took %v", d)
		}
		same(t, "executed", hung.Hits(), 1)
		for _, k := range all {
			if !errors.Is(k.err, ErrOutcomeUnknown) {
				t.Fatal(k.err)
			}
			v.reserve(t, k.order, Known)
		}
		v.level(t, r.sale.ID, 8, 2, 0)
	})
}

func TestFlights_AReplyLostForAWholeBatchIsAskedForAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for name, c := range map[string]struct {
			harm func(*redistest.Proxy) *redistest.Fault
			then Code
		}{
			"executed, the reply is lost":    {func(p *redistest.Proxy) *redistest.Fault { return p.DropReply("EVALSHA", 1) }, Known},
			"cut before it was executed":     {func(p *redistest.Proxy) *redistest.Fault { return p.CutBefore("EVALSHA", 1) }, Taken},
			"only late, within its deadline": {func(p *redistest.Proxy) *redistest.Fault { return p.DelayReply("EVALSHA", 1, 50*time.Millisecond) }, Known},
		} {
			t.Run(name, func(t *testing.T) {
				must(t, v.client.FlushAll(t.Context()).Err())
				v.store = newStore(t, v.client, v.real == nil)
				r := newRunway(t, v, 50, func(s *Sale) { s.BuyerLimit = 1 })
				r.block()
				var orders []Order
				for i := range 20 {
					orders = append(orders, order(r.sale, fmt.Sprint("u", i), 1))
				}
				all := r.queue(orders...)
				harm := c.harm(r.proxy)
				same(t, "flights", r.fly(), []int{20})
				same(t, "harm", harm.Hits(), 1)
				for _, k := range all {
					if strings.HasPrefix(name, "only late") != (k.err == nil) || k.err != nil && !errors.Is(k.err, ErrOutcomeUnknown) {
						t.Fatal(k.err)
					}
				}
				got := ask(t, 20, func(i int) (*Store, Order) { return r.s, orders[i] })
				same(t, "asked again", got.of(c.then), 20)
				checkInvariant(t, v.store, r.sale.ID)
				v.level(t, r.sale.ID, 30, 20, 0)
			})
		}
	})
}

func TestFlights_ALoneCallerGoesAtOnceAndHimself(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 10, nil)
		r.proxy.Reset()
		for i := range 3 {
			ctx := context.WithValue(t.Context(), callerKey{}, i)
			res, err := r.s.Reserve(ctx, order(r.sale, "ann", 1))
			must(t, err)
			same(t, "code", res.Code, Taken)
		}
		_, most, carried := r.g.state()
		same(t, "orders of each script", carried, []int{1, 1, 1})
		same(t, "at once", most, 1)
		same(t, "scripts", []int64{r.proxy.Count("EVALSHA"), r.proxy.Count("EVAL")}, []int64{3, 0})
		same(t, "on whose time", r.g.callers, []any{0, 1, 2})

		// His own deadline holds, and what he leaves behind keeps nobody up.
		hung := r.proxy.HangReply("EVALSHA", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		at := time.Now()
		if _, err := r.s.Reserve(ctx, order(r.sale, "bob", 1)); !errors.Is(err, ErrOutcomeUnknown) || hung.Hits() != 1 {
			t.Fatal(err)
		}
		if d := time.Since(at); d > flightTime-200*time.Millisecond {
			t.Fatalf("his deadline was 100ms, he was kept for %v", d)
		}
		res, err := r.s.Reserve(t.Context(), order(r.sale, "cid", 1))
		must(t, err)
		same(t, "the next one", res.Code, Taken)
	})
}

func TestFlights_OfOneBucketDoNotHoldUpAnother(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		r := newRunway(t, v, 50, func(s *Sale) { s.Buckets = 5 })
		at := home(NewOrderID(r.sale.ID, "blocker"), 5)
		r.block()
		waits := r.queue(order(r.sale, userAt(r.sale, at, 5, 0), 1))
		r.g.mu.Lock()
		shut := r.g.shut
		r.g.shut = nil // from here on scripts pass; those held stay held
		r.g.mu.Unlock()
		res, err := r.s.Reserve(t.Context(), order(r.sale, userAt(r.sale, (at+1)%5, 5, 0), 1))
		must(t, err)
		same(t, "the other bucket", res.Code, Taken)
		same(t, "still waiting", r.waiting(), 1)
		close(shut)
		r.wg.Wait()
		same(t, "codes", codes(t, waits), []Code{Taken})
		checkInvariant(t, v.store, r.sale.ID)
	})
}

func TestFlights_TheQueueIsBounded(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, nil)
		e, err := v.store.entry(t.Context(), sale.ID)
		must(t, err)
		f := &e.cells[0].flights
		f.running = maxFlights
		for range maxWaiting - 1 {
			f.waiting = append(f.waiting, newPassenger(order(sale, "crowd", 1)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		last := make(chan error)
		go func() { _, err := v.store.Reserve(ctx, order(sale, "last", 1)); last <- err }()
		full := func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.waiting) == maxWaiting }
		eventually(t, "the last one waits", full)
		if _, err := v.store.Reserve(t.Context(), order(sale, "one too many", 1)); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		cancel()
		if err := <-last; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if full() {
			t.Fatal("who left keeps his place")
		}
		v.level(t, sale.ID, 10, 0, 0)
	})
}

// TestFlights_ACrowdSharesScripts: replies take 10 ms, so that a queue builds
// up by itself.
func TestFlights_ACrowdSharesScripts(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		const crowd = 400
		r := newRunway(t, v, 1000, nil)
		r.proxy.DelayReply("EVALSHA", 0, 10*time.Millisecond)
		r.proxy.Reset()
		got := ask(t, crowd, func(i int) (*Store, Order) { return r.s, order(r.sale, fmt.Sprint("u", i), 1) })
		same(t, "wins", got.wins(), crowd)
		if n := r.proxy.Count("EVALSHA"); n > crowd/5 {
			t.Fatalf("%d scripts for %d orders at once", n, crowd)
		}
		_, most, carried := r.g.state()
		sum := 0
		for _, n := range carried {
			sum += n
			if n > maxBatch {
				t.Fatalf("a flight of %d", n)
			}
		}
		if sum != crowd || most > maxFlights {
			t.Fatalf("%d orders travelled, %d scripts at once", sum, most)
		}
		checkInvariant(t, v.store, r.sale.ID)
		v.level(t, r.sale.ID, 1000-crowd, crowd, 0)
	})
}

func TestFlights_WithABatchOfOneEachOrderHasItsScript(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 50, nil)
		v.cacheScripts(t, sale)
		s, p := v.throughProxy(t, func(c *Config, o *redis.Options) { c.Batch, o.PoolSize = 1, 20 })
		must(t, s.Refresh(t.Context()))
		p.Reset()
		got := ask(t, 30, func(i int) (*Store, Order) { return s, order(sale, fmt.Sprint("u", i), 1) })
		same(t, "wins", got.wins(), 30)
		same(t, "scripts", p.Count("EVALSHA"), 30)
		checkInvariant(t, v.store, sale.ID)
	})
}
