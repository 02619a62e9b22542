package inventory

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestReserve_CodesOfAnOpenSale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 6, func(s *Sale) { s.BuyerLimit = 5 })
		first := order(sale, "ann", 3)
		res := v.reserve(t, first, Taken)
		r := res.Reservation
		if !res.Granted || r.State != Reserved || r.Attempt != 1 || r.Quantity != 3 || r.User != "ann" || r.Item != sale.Item {
			t.Fatalf("%+v", res)
		}
		if got := r.ExpiresAt.Sub(r.ReservedAt); got != sale.Hold {
			t.Fatalf("hold of %v, want %v", got, sale.Hold)
		}
		if got := r.AttemptUntil.Sub(r.ReservedAt); got != attempt {
			t.Fatalf("attempt of %v, want %v", got, attempt)
		}
		if res := v.reserve(t, first, Known); res.Granted || res.Reservation.State != Reserved {
			t.Fatalf("a running attempt was granted twice: %+v", res)
		}
		for _, other := range []func(*Order){
			func(o *Order) { o.Quantity = 2 }, func(o *Order) { o.User = "bob" }, func(o *Order) { o.Item = "1002" },
		} {
			o := first
			other(&o)
			if res := v.reserve(t, o, Mismatch); res.Reservation.Quantity != 3 || res.Reservation.User != "ann" || res.Granted {
				t.Fatalf("the stored order does not follow: %+v", res)
			}
		}
		v.reserve(t, order(sale, "ann", 3), BuyerLimit)
		if res := v.reserve(t, order(sale, "bob", 4), NotEnough); res.Available != 3 {
			t.Fatalf("available %d", res.Available)
		}
		v.reserve(t, order(sale, "bob", 3), TakenLast)
		res = v.reserve(t, order(sale, "cid", 1), NoneFreeNow)
		if !res.Until.Equal(r.ExpiresAt) {
			t.Fatalf("earliest deadline %v, want %v", res.Until, r.ExpiresAt)
		}
		v.level(t, sale.ID, 0, 6, 0)
	})
}

func TestReserve_OneUnitAnswersTwoThenOne(t *testing.T) { // T-01
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		won := v.reserve(t, order(sale, "ann", 1), TakenLast)
		_, err := v.store.Confirm(t.Context(), sale.ID, won.Reservation.ID, 1, "S-1")
		must(t, err)
		if view, _ := v.store.View(sale.ID); view.SoldOut {
			t.Fatal("sold out before anybody was told so")
		}
		if res := v.reserve(t, order(sale, "bob", 1), NotEnough); res.Available != 0 {
			t.Fatalf("%+v", res)
		}
		if view, _ := v.store.View(sale.ID); !view.SoldOut {
			t.Fatal("the answer did not set the sold-out mark")
		}
	})
}

func TestReserve_RefusesBadOrdersBeforeAnythingIsSent(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 10, nil)
	for name, change := range map[string]func(*Order){
		"no quantity":       func(o *Order) { o.Quantity = 0 },
		"negative quantity": func(o *Order) { o.Quantity = -1 },
		"huge quantity":     func(o *Order) { o.Quantity = 1e18 },
		"above the order's": func(o *Order) { o.Quantity = sale.MaxQuantity + 1 },
		"foreign id":        func(o *Order) { o.ID = NewOrderID("other", o.User) },
		"no id":             func(o *Order) { o.ID = "" },
		"no attempt":        func(o *Order) { o.AttemptFor = 0 },
		"endless attempt":   func(o *Order) { o.AttemptFor = sale.Hold + time.Second },
		"long user":         func(o *Order) { o.User = strings.Repeat("u", 257) },
		"another item":      func(o *Order) { o.Item = "1002" },
	} {
		t.Run(name, func(t *testing.T) {
			o := order(sale, "ann", 1)
			change(&o)
			if res, err := v.store.Reserve(t.Context(), o); !errors.Is(err, ErrInvalidOrder) {
				t.Fatalf("%+v, %v", res, err)
			}
			v.level(t, sale.ID, 10, 0, 0)
		})
	}
}

func TestReserveScript_RefusesNumbersThatAreNone(t *testing.T) { // trap 4
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, nil)
		e, err := v.store.entry(t.Context(), sale.ID)
		must(t, err)
		for _, q := range []string{"", "0", "-1", "1.5", "1e3", "0x1", "nan", "inf", "9007199254740992", " 1"} {
			r, err := v.store.runOn(t.Context(), e, e.cells[0], &v.store.scripts.reserve, []any{"", 0, 0,
				shorten(NewOrderID(sale.ID, "ann")), "ann", q + " 1000  ",
				shorten(NewOrderID(sale.ID, "bob")), "bob", "1 1000  "})
			must(t, err)
			// The bad one harms no other in its batch.
			answers := r.any(0).([]any)
			if bad := answers[0].([]any); bad[0] != int64(notOfSale) {
				t.Errorf("quantity %q: %v", q, bad)
			}
			if _, won := answers[1].(int64); !won {
				t.Errorf("beside quantity %q: %v", q, answers[1])
			}
		}
		v.level(t, sale.ID, 0, 10, 0)
	})
}

func TestReserve_AnyBytesInTheUsersName(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		for _, user := range []string{"a b", "1 2 3", "\x00\xff\n", "ü|{}", strings.Repeat("x", 256)} {
			o := order(sale, user, 1)
			if res := v.reserve(t, o, Taken); res.Reservation.User != user {
				t.Fatalf("%q came back as %q", user, res.Reservation.User)
			}
			v.reserve(t, order(sale, user, 1), BuyerLimit)
			r, err := v.store.Accept(t.Context(), sale.ID, o.ID, 1, "shop "+user)
			must(t, err)
			if r.User != user || r.ShopOrder != "shop "+user {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestReserve_BigNumbersStayExact(t *testing.T) { // trap 3
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, maxUnits, func(s *Sale) { s.MaxQuantity = maxUnits })
		o := order(sale, "ann", 123_456_789_012_345)
		v.reserve(t, o, Taken)
		v.level(t, sale.ID, maxUnits-o.Quantity, o.Quantity, 0)
		_, err := v.store.Release(t.Context(), sale.ID, o.ID, 1)
		must(t, err)
		v.level(t, sale.ID, maxUnits, 0, 0)
	})
}

func TestReserve_TwoHundredAtOnceForAHundredUnits(t *testing.T) { // T-05
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, nil)
		var wins, lost atomic.Int64
		parallel(t, 200, func(i int) error {
			res, err := v.store.Reserve(t.Context(), order(sale, "u", 1))
			switch res.Code {
			case Taken, TakenLast:
				wins.Add(1)
			case NoneFreeNow:
				lost.Add(1)
			}
			return err
		})
		if wins.Load() != 100 || lost.Load() != 100 {
			t.Fatalf("%d won, %d lost", wins.Load(), lost.Load())
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 100, 0)
	})
}

func TestReserve_AHundredRepeatsTakeOneUnitAndOneAttempt(t *testing.T) { // T-07
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, nil)
		o := order(sale, "ann", 1)
		var taken, known, granted atomic.Int64
		parallel(t, 100, func(int) error {
			res, err := v.store.Reserve(t.Context(), o)
			if res.Code == Taken {
				taken.Add(1)
			}
			if res.Code == Known {
				known.Add(1)
			}
			if res.Granted {
				granted.Add(1)
			}
			return err
		})
		if taken.Load() != 1 || known.Load() != 99 || granted.Load() != 1 {
			t.Fatalf("taken %d known %d granted %d", taken.Load(), known.Load(), granted.Load())
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 9, 1, 0)
	})
}

func TestReserve_BuyersLimitHoldsWhenHeAsksTenTimesAtOnce(t *testing.T) { // T-08
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		var taken, refused atomic.Int64
		parallel(t, 10, func(int) error {
			res, err := v.store.Reserve(t.Context(), order(sale, "ann", 1))
			if res.Code == Taken {
				taken.Add(1)
			}
			if res.Code == BuyerLimit {
				refused.Add(1)
			}
			return err
		})
		if taken.Load() != 1 || refused.Load() != 9 {
			t.Fatalf("taken %d refused %d", taken.Load(), refused.Load())
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 9, 1, 0)
	})
}

func TestReserve_ABuyersOwnDueHoldDoesNotCountToHisLimit(t *testing.T) { // T-20 for oneself
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		v.reserve(t, order(sale, "ann", 1), Taken)
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, "ann", 1), Taken)
		v.level(t, sale.ID, 9, 1, 0)
	})
}

func TestReserve_HalfOpenBoundaries(t *testing.T) { // T-29
	v := memoryEnv(t)
	start := v.now.Add(10 * time.Second)
	sale := v.openSale(t, 10, func(s *Sale) { s.StartAt, s.EndAt = start, start.Add(10*time.Second) })
	for _, c := range []struct {
		at   time.Time
		want Code
	}{
		{start.Add(-time.Millisecond), NotRunning}, {start, Taken},
		{sale.EndAt.Add(-time.Millisecond), Taken}, {sale.EndAt, NotRunning},
	} {
		v.now = c.at
		v.mini.SetTime(c.at)
		v.reserve(t, order(sale, "ann", 1), c.want)
	}
	v.level(t, sale.ID, 8, 2, 0)
}

func TestReserve_ADueHoldIsResoldWithoutAnySweep(t *testing.T) { // T-20
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		first := order(sale, "ann", 1)
		v.reserve(t, first, TakenLast)
		v.reserve(t, order(sale, "bob", 1), NoneFreeNow)
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, "bob", 1), TakenLast)
		if res := v.reserve(t, first, Known); res.Reservation.State != Expired || res.Granted {
			t.Fatalf("%+v", res)
		}
	})
}

func TestReserve_FreesAtMost256HoldsAtATime(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 300, func(s *Sale) { s.MaxQuantity = 300 })
	for range 300 {
		_, err := v.store.Reserve(t.Context(), order(sale, "ann", 1))
		must(t, err)
	}
	v.advance(t, sale.ID, sale.Hold)
	o := order(sale, "bob", 300)
	v.reserve(t, o, NoneFreeNow)
	v.level(t, sale.ID, 256, 44, 0)
	v.reserve(t, o, TakenLast)
}

func TestReserve_KnownOrdersAreAnsweredWhateverTheSaleDoes(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 3, func(s *Sale) { s.Hold = 3 * time.Hour })
		o := order(sale, "ann", 1)
		v.reserve(t, o, Taken)
		_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredPaused)
		must(t, err)
		v.reserve(t, order(sale, "bob", 1), NotRunning)
		v.reserve(t, o, Known)
		_, err = v.store.SetDesired(t.Context(), sale.ID, DesiredOn)
		must(t, err)
		v.reserve(t, order(sale, "bob", 1), Taken)

		v.advance(t, sale.ID, 2*time.Hour) // past the end
		v.reserve(t, order(sale, "cid", 1), NotRunning)
		if res := v.reserve(t, o, Known); !res.Granted || res.Reservation.Attempt != 2 {
			t.Fatalf("no attempt for a held unit after the end: %+v", res)
		}
		_, err = v.store.SetDesired(t.Context(), sale.ID, DesiredCancelled)
		must(t, err)
		v.advance(t, sale.ID, attempt)
		if res := v.reserve(t, o, Known); res.Granted || res.Reservation.State != Reserved {
			t.Fatalf("an attempt was granted in a cancelled sale: %+v", res)
		}
		if _, err := v.store.SetDesired(t.Context(), sale.ID, DesiredOn); !errors.Is(err, ErrNotAllowed) {
			t.Fatalf("a cancelled sale was resumed: %v", err)
		}
	})
}

func TestReserve_UnknownSale(t *testing.T) { // T-04
	eachRedis(t, func(t *testing.T, v *env) {
		if _, err := v.store.Reserve(t.Context(), order(planned(), "ann", 1)); !errors.Is(err, ErrUnknownSale) {
			t.Fatal(err)
		}
	})
}

func TestReserve_ScriptFlushInBetweenIsNotNoticed(t *testing.T) { // T-32
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 3, nil)
		v.reserve(t, order(sale, "ann", 1), Taken)
		must(t, v.client.ScriptFlush(t.Context()).Err())
		v.reserve(t, order(sale, "bob", 1), Taken)
		v.level(t, sale.ID, 1, 2, 0)
	})
}

// parallel runs n calls at once and fails on any error.
func parallel(t *testing.T, n int, call func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
}
