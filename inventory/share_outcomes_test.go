package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStock_T02_ADefiniteErrorGivesTheShareBackAndIsNotSoldOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		s := v.sharing(t, 1, time.Minute)[0]
		f := &fault{from: 1, count: 2}
		s.redis.AddHook(f)
		o := order(sale, "ann", 1)
		for range 2 { // Redis is down; there is one local unit
			res, err := s.Reserve(t.Context(), o)
			if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("%+v, %v", res, err)
			}
			if view, _ := s.View(sale.ID); view.SoldOut {
				t.Fatal("an error was taken for sold out")
			}
		}
		res, err := s.Reserve(t.Context(), o)
		must(t, err)
		if res.Code != TakenLast {
			t.Fatalf("the local unit was not given back: %+v", res)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 1, 0)
	})
}

func TestStock_T02_ADefiniteErrorGivesTheShareBackForAnybody(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		s := v.sharing(t, 1, time.Minute)[0]
		s.redis.AddHook(&fault{from: 1, count: 1})
		if _, err := s.Reserve(t.Context(), order(sale, "ann", 1)); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		res, err := s.Reserve(t.Context(), order(sale, "bob", 1))
		must(t, err)
		if res.Code != TakenLast {
			t.Fatalf("%+v", res)
		}
	})
}

func TestStock_T02_AnUnknownOutcomeIsLearnedWithTheSameID(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		v.cacheScripts(t, sale)
		for _, executed := range []bool{false, true} {
			s, p := v.throughProxy(t, func(c *Config, _ *redis.Options) { c.Share, c.Refresh = &Share{Buffer: buffer}, time.Minute })
			must(t, s.Refresh(t.Context()))
			if executed {
				p.DropReply("EVALSHA", 1)
			} else {
				p.CutBefore("EVALSHA", 1)
			}
			o := order(sale, fmt.Sprint("ann", executed), 1)
			if _, err := s.Reserve(t.Context(), o); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			// The local unit stays spent: it may be taken. His own retry needs none.
			res, err := s.Reserve(t.Context(), o)
			must(t, err)
			if want := map[bool]Code{false: TakenLast, true: Known}[executed]; res.Code != want || res.Reservation.State != Reserved {
				t.Fatalf("executed %v: %+v", executed, res)
			}
			v.level(t, sale.ID, 0, 1, 0)
			_, err = s.Release(t.Context(), sale.ID, o.ID, 1)
			must(t, err)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestShare_AWinnersRetryNeedsNone(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.MaxQuantity = 49 })
		s := v.sharing(t, 1, time.Minute)[0]
		o := order(sale, "ann", 1)
		first, err := s.Reserve(t.Context(), o)
		must(t, err)
		bulk := order(sale, "bulk", 49)
		_, err = v.store.Reserve(t.Context(), bulk) // by another replica
		must(t, err)
		must(t, s.Refresh(t.Context()))
		e, err := s.entry(t.Context(), sale.ID)
		must(t, err)
		if left := e.share.left.Load(); left > 0 {
			t.Fatalf("%d units of a share are left though nothing is free", left)
		}
		for range 3 {
			res, err := s.Reserve(t.Context(), o)
			must(t, err)
			if res.Code != Known || res.FromMemory || res.Reservation.ID != first.Reservation.ID || res.Reservation.State != Reserved {
				t.Fatalf("%+v", res)
			}
		}
		if left := e.share.left.Load(); left > 0 {
			t.Fatalf("a retry gave back %d units that it never had", left)
		}
		res, err := s.Reserve(t.Context(), order(sale, "bob", 1))
		must(t, err)
		if res.Code != NoneFreeNow || !res.FromMemory || res.Until.IsZero() {
			t.Fatalf("%+v", res)
		}
	})
}

// Whatever the answers were, nothing counts as on its way afterwards.
func TestShare_NothingStaysOnItsWay(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 20, nil)
		s, p := v.throughProxy(t, func(c *Config, _ *redis.Options) { c.Share, c.Refresh = &Share{Buffer: buffer}, storm })
		must(t, s.Refresh(t.Context()))
		p.DropReply("EVALSHA", 2)
		p.CutBefore("EVALSHA", 2)
		for i := range 60 {
			_, _ = s.Reserve(t.Context(), order(sale, fmt.Sprint("u", i), 1))
		}
		e, err := s.entry(t.Context(), sale.ID)
		must(t, err)
		same(t, "on their way", e.share.out.Load(), 0)
		l, err := s.Level(t.Context(), sale.ID)
		must(t, err)
		same(t, "free", l.Free, 0)
	})
}

// The wait for a share may end in another generation of the sale.
func TestShare_IsSettledWhereItWasTaken(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		first, second := v.later(t)
		s := v.sharing(t, 1, time.Minute)[0]
		old, err := s.entry(t.Context(), first.ID)
		must(t, err)
		old.share.left.Store(0)
		done := make(chan error, 1)
		go func() {
			_, err := s.Reserve(t.Context(), order(first, "ann", 1))
			done <- err
		}()
		second.StartAt = time.Time{}
		_, err = v.store.Preheat(t.Context(), second)
		must(t, err)
		must(t, s.Refresh(t.Context()))
		must(t, <-done)
		now, err := s.entry(t.Context(), first.ID)
		must(t, err)
		if now.view.Generation == old.view.Generation {
			t.Fatal("the generation did not change")
		}
		same(t, "on their way", []int64{old.share.out.Load(), now.share.out.Load()}, []int64{0, 0})
	})
}

func TestShare_AnswersThatTakeNothingGiveTheirPartBack(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, func(s *Sale) { s.BuyerLimit = 1 })
		s := v.sharing(t, 1, time.Minute)[0]
		e, err := s.entry(t.Context(), sale.ID)
		must(t, err)
		before := e.share.left.Load()
		same(t, "a share", before, 12)
		_, err = s.Reserve(t.Context(), order(sale, "ann", 1))
		must(t, err)
		tomb := order(sale, "bob", 1)
		_, err = v.store.Release(t.Context(), sale.ID, tomb.ID, 0)
		must(t, err)
		for _, o := range []Order{order(sale, "ann", 1), tomb, order(sale, "cid", 2)} { // limit, tombstone, limit
			_, err := s.Reserve(t.Context(), o)
			must(t, err)
		}
		same(t, "left", e.share.left.Load(), before-1)
		_, err = v.store.SetDesired(t.Context(), sale.ID, DesiredPaused)
		must(t, err)
		res, err := s.Reserve(t.Context(), order(sale, "dan", 1))
		must(t, err)
		same(t, "paused", []any{res.Code, e.share.left.Load()}, []any{NotRunning, before - 1})
	})
}
