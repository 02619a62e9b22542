package inventory

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// won reserves one unit for the user.
func (v *env) won(t *testing.T, sale Sale, user string) Order {
	t.Helper()
	o := order(sale, user, 1)
	res, err := v.store.Reserve(t.Context(), o)
	must(t, err)
	if res.Code != Taken && res.Code != TakenLast {
		t.Fatalf("%s did not win: %+v", user, res)
	}
	return o
}

// settled runs one settle call and compares state and error, then the books.
func (v *env) settled(t *testing.T, sale Sale, want State, wantErr error, r Reservation, err error) {
	t.Helper()
	if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if r.State != want {
		t.Fatalf("state %q, want %q", r.State, want)
	}
	checkInvariant(t, v.store, sale.ID)
}

func TestSettle_EachArrowOnceAndAskingTwiceGetsTheEarlierAnswer(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 10, func(sa *Sale) { sa.BuyerLimit = 1 })
		id := v.won(t, sale, "ann").ID
		for range 2 {
			r, err := s.Accept(ctx, sale.ID, id, 1, "S-1")
			v.settled(t, sale, Reserved, nil, r, err)
			if !r.AttemptUntil.IsZero() || r.ShopOrder != "S-1" {
				t.Fatalf("the attempt is not closed: %+v", r)
			}
		}
		for range 2 {
			r, err := s.Confirm(ctx, sale.ID, id, 0, "")
			v.settled(t, sale, Confirmed, nil, r, err)
			if r.ShopOrder != "S-1" {
				t.Fatalf("the shop's order was lost: %+v", r)
			}
		}
		v.level(t, sale.ID, 9, 0, 1)
		r, err := s.Accept(ctx, sale.ID, id, 1, "S-1")
		v.settled(t, sale, Confirmed, nil, r, err)
		r, err = s.Release(ctx, sale.ID, id, 1)
		v.settled(t, sale, Confirmed, ErrNotAllowed, r, err)
		r, err = s.Expire(ctx, sale.ID, id)
		v.settled(t, sale, Confirmed, ErrNotAllowed, r, err)
		for range 2 {
			r, err = s.Release(ctx, sale.ID, id, 0)
			v.settled(t, sale, Returned, nil, r, err)
			v.level(t, sale.ID, 10, 0, 0)
		}
		r, err = s.Confirm(ctx, sale.ID, id, 0, "")
		v.settled(t, sale, Returned, ErrNotAllowed, r, err)
		v.won(t, sale, "ann") // his limit was given back
	})
}

func TestRelease_InParallelGivesTheUnitBackOnce(t *testing.T) { // T-18, T-19
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(sa *Sale) { sa.BuyerLimit = 1 })
		id := v.won(t, sale, "ann").ID
		parallel(t, 20, func(i int) error {
			r, err := v.store.Release(t.Context(), sale.ID, id, i%2)
			if err == nil && r.State != Released {
				return errors.New(string(r.State))
			}
			return err
		})
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 10, 0, 0)
		r, err := v.store.Confirm(t.Context(), sale.ID, id, 0, "")
		v.settled(t, sale, Released, ErrNotAllowed, r, err)
	})
}

func TestStock_H03_AReleaseBeforeTheReserveLeavesATombstone(t *testing.T) { // T-18c
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, nil)
		o := order(sale, "ann", 1)
		for range 2 {
			r, err := v.store.Release(t.Context(), sale.ID, o.ID, 0)
			v.settled(t, sale, Cancelled, nil, r, err)
		}
		v.reserve(t, o, Tombstoned)
		v.level(t, sale.ID, 10, 0, 0)
		r, err := v.store.Confirm(t.Context(), sale.ID, o.ID, 0, "")
		v.settled(t, sale, Cancelled, ErrNotAllowed, r, err)
		r, err = v.store.Find(t.Context(), o.ID)
		v.settled(t, sale, Cancelled, nil, r, err)
	})
}

func TestConfirm_LatePayment(t *testing.T) { // T-23
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 1, nil)
		a := v.won(t, sale, "ann").ID
		v.advance(t, sale.ID, sale.Hold)
		b := v.won(t, sale, "bob").ID
		for range 2 { // resold: the money goes back, never oversold
			r, err := s.Confirm(ctx, sale.ID, a, 0, "S-1")
			v.settled(t, sale, RefundDue, nil, r, err)
		}
		v.level(t, sale.ID, 0, 1, 0)
		r, err := s.Release(ctx, sale.ID, a, 0)
		v.settled(t, sale, RefundDue, ErrNotAllowed, r, err)
		v.advance(t, sale.ID, sale.Hold)
		_, err = s.Sweep(ctx, sale.ID)
		must(t, err)
		v.level(t, sale.ID, 1, 0, 0)
		r, err = s.Confirm(ctx, sale.ID, b, 0, "S-2") // still free: sold after all
		v.settled(t, sale, Confirmed, nil, r, err)
		v.level(t, sale.ID, 0, 0, 1)
	})
}

func TestConfirm_LatePaymentKeepsTheBuyersLimit(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(sa *Sale) { sa.BuyerLimit = 1 })
		a := v.won(t, sale, "ann").ID
		v.advance(t, sale.ID, sale.Hold)
		_, err := v.store.Sweep(t.Context(), sale.ID)
		must(t, err)
		v.won(t, sale, "ann")
		r, err := v.store.Confirm(t.Context(), sale.ID, a, 0, "S-1")
		v.settled(t, sale, RefundDue, nil, r, err)
	})
}

func TestConfirm_AndSweepAroundTheDeadlineGiveOneOutcome(t *testing.T) { // T-24
	eachRedis(t, func(t *testing.T, v *env) {
		for _, late := range []time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond} {
			sale := v.openSale(t, 1, func(sa *Sale) { sa.ID, sa.Item = "s"+num(int64(late+100e6)), "i"+num(int64(late+100e6)) })
			id := v.won(t, sale, "ann").ID
			v.advance(t, sale.ID, sale.Hold+late)
			parallel(t, 2, func(i int) error {
				if i == 0 {
					_, err := v.store.Sweep(t.Context(), sale.ID)
					return err
				}
				_, err := v.store.Confirm(t.Context(), sale.ID, id, 0, "S-1")
				return err
			})
			r, err := v.store.Find(t.Context(), id)
			v.settled(t, sale, Confirmed, nil, r, err) // the only unit was free, or still his
			v.level(t, sale.ID, 0, 0, 1)
		}
	})
}

func TestSettle_UnknownReservations(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 10, nil)
		id := NewOrderID(sale.ID, "ann")
		_, err1 := s.Accept(ctx, sale.ID, id, 1, "")
		_, err2 := s.Confirm(ctx, sale.ID, id, 1, "")
		_, err3 := s.Expire(ctx, sale.ID, id)
		err4 := s.MarkStuck(ctx, sale.ID, id)
		_, err5 := s.Find(ctx, id)
		_, err6 := s.Find(ctx, NewOrderID("other", "ann"))
		_, err7 := s.Find(ctx, "x")
		_, err8 := s.Release(ctx, sale.ID, NewOrderID("other", "ann"), 0)
		for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
			if !errors.Is(err, ErrUnknownReservation) {
				t.Errorf("%d: %v", i+1, err)
			}
		}
		if _, err := s.Release(ctx, "other", NewOrderID("other", "ann"), 0); !errors.Is(err, ErrUnknownSale) {
			t.Errorf("release in an unknown sale: %v", err)
		}
		v.level(t, sale.ID, 10, 0, 0)
	})
}

func TestAttempts_OneCallerAtATime(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 10, nil)
		o := v.won(t, sale, "ann")
		v.advance(t, sale.ID, attempt)
		var granted atomic.Int64
		parallel(t, 20, func(int) error {
			res, err := s.Reserve(ctx, o)
			if res.Granted {
				granted.Add(1)
			}
			return err
		})
		if granted.Load() != 1 {
			t.Fatalf("attempt 2 was granted %d times", granted.Load())
		}
		r, err := s.Release(ctx, sale.ID, o.ID, 1) // the first holder wakes up late
		v.settled(t, sale, Reserved, ErrAttemptOver, r, err)
		r, err = s.Confirm(ctx, sale.ID, o.ID, 1, "")
		v.settled(t, sale, Reserved, ErrAttemptOver, r, err)
		r, err = s.Accept(ctx, sale.ID, o.ID, 1, "")
		v.settled(t, sale, Reserved, ErrAttemptOver, r, err)
		r, err = s.Accept(ctx, sale.ID, o.ID, 2, "S-1")
		v.settled(t, sale, Reserved, nil, r, err)
		if res := v.reserve(t, o, Known); res.Granted || res.Reservation.Attempt != 2 || res.Reservation.ShopOrder != "S-1" {
			t.Fatalf("the shop has the order and waits for its payment; nothing is forwarded again: %+v", res)
		}
	})
}

func TestAttempts_NoneStartsWithLessHoldLeftThanItsTime(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 10, nil)
	o := v.won(t, sale, "ann")
	v.advance(t, sale.ID, sale.Hold-attempt+time.Millisecond)
	if res := v.reserve(t, o, Known); res.Granted {
		t.Fatalf("%+v", res)
	}
	other := v.won(t, sale, "bob")
	v.advance(t, sale.ID, sale.Hold-attempt)
	if res := v.reserve(t, other, Known); !res.Granted {
		t.Fatalf("exactly the time was left: %+v", res)
	}
}

func TestSweep_AsksAboutUnsettledAttemptsEveryTwoSeconds(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 10, nil)
		lost, kept, gone := v.won(t, sale, "ann"), v.won(t, sale, "bob"), v.won(t, sale, "cid")
		asks := func(want ...string) {
			t.Helper()
			swept, err := s.Sweep(ctx, sale.ID)
			must(t, err)
			if len(swept.Ask) != len(want) {
				t.Fatalf("asked about %d, want %d: %+v", len(swept.Ask), len(want), swept.Ask)
			}
			for i, id := range want {
				if swept.Ask[i].ID != id || swept.Ask[i].State != Reserved {
					t.Fatalf("%+v", swept.Ask[i])
				}
			}
			checkInvariant(t, s, sale.ID)
		}
		asks() // they run
		_, err := s.Accept(ctx, sale.ID, kept.ID, 1, "S-1")
		must(t, err)
		_, err = s.Release(ctx, sale.ID, gone.ID, 1)
		must(t, err)
		v.advance(t, sale.ID, attempt)
		asks(lost.ID)
		asks() // just asked
		v.advance(t, sale.ID, 2*time.Second)
		must(t, s.MarkStuck(ctx, sale.ID, lost.ID))
		asks(lost.ID)
		r, err := s.Find(ctx, lost.ID)
		must(t, err)
		if !r.Stuck {
			t.Fatal("the flag is gone")
		}
		r, err = s.Confirm(ctx, sale.ID, lost.ID, 1, "S-2")
		v.settled(t, sale, Confirmed, nil, r, err)
		if r.Stuck {
			t.Fatal("stuck after it was settled")
		}
		if err := s.MarkStuck(ctx, sale.ID, lost.ID); !errors.Is(err, ErrNotAllowed) {
			t.Fatal(err)
		}
		v.advance(t, sale.ID, 2*time.Second)
		asks()
	})
}

func TestExpiryFree_ScriptsFreeDueHolds(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 3, nil)
		a := v.won(t, sale, "ann")
		v.won(t, sale, "bob")
		r, err := v.store.Expire(t.Context(), sale.ID, a.ID)
		v.settled(t, sale, Reserved, ErrNotAllowed, r, err)
		v.advance(t, sale.ID, sale.Hold)
		swept, err := v.store.Sweep(t.Context(), sale.ID)
		must(t, err)
		if swept.Freed != 2 || len(swept.Ask) != 0 {
			t.Fatalf("%+v", swept)
		}
		v.level(t, sale.ID, 3, 0, 0)
		r, err = v.store.Expire(t.Context(), sale.ID, a.ID)
		v.settled(t, sale, Expired, nil, r, err)
		v.level(t, sale.ID, 3, 0, 0)
		r, err = v.store.Release(t.Context(), sale.ID, a.ID, 0)
		v.settled(t, sale, Expired, ErrNotAllowed, r, err)
	})
}

func TestExpiryAsk_AnUnknownOutcomeKeepsItsUnitUntilTheShopSaysNo(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 2, func(sa *Sale) { sa.Expiry = ExpiryAsk })
		lost, unpaid := v.won(t, sale, "ann"), v.won(t, sale, "bob")
		_, err := s.Accept(ctx, sale.ID, unpaid.ID, 1, "S-1")
		must(t, err)
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, "cid", 1), TakenLast) // the accepted, unpaid one fell due
		v.reserve(t, order(sale, "dan", 1), NoneFreeNow)
		if res := v.reserve(t, lost, Known); res.Reservation.State != Reserved || res.Granted {
			t.Fatalf("%+v", res)
		}
		swept, err := s.Sweep(ctx, sale.ID)
		must(t, err)
		if swept.Freed != 0 || len(swept.Ask) != 1 || swept.Ask[0].ID != lost.ID {
			t.Fatalf("%+v", swept)
		}
		for range 2 {
			r, err := s.Expire(ctx, sale.ID, lost.ID)
			v.settled(t, sale, Expired, nil, r, err)
		}
		v.level(t, sale.ID, 1, 1, 0)
	})
}

func TestExpiryAsk_AcceptedAfterTheDeadlineIsFreedAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 1, func(sa *Sale) { sa.Expiry = ExpiryAsk })
		lost := v.won(t, sale, "ann")
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, "bob", 1), NoneFreeNow) // takes it from the list of holds
		r, err := s.Accept(ctx, sale.ID, lost.ID, 1, "S-1")
		v.settled(t, sale, Reserved, nil, r, err)
		v.reserve(t, order(sale, "bob", 1), TakenLast)
	})
}
