package inventory

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

func TestStock_T01_OneUnitAnswersTwoThenOne(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 1, shape)
		won := v.reserve(t, order(sale, "ann", 1), TakenLast)
		v.reserve(t, order(sale, "bob", 1), NoneFreeNow) // it may come back: not sold out yet
		_, err := v.store.Confirm(t.Context(), sale.ID, won.Reservation.ID, 1, "S-1")
		must(t, err)
		if res := v.reserve(t, order(sale, "bob", 1), NotEnough); res.Available != 0 {
			t.Fatalf("%+v", res)
		}
		v.level(t, sale.ID, 0, 0, 1)
	})
}

func TestStock_T03_AnOrderIsTakenWholeOrNotAtAll(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 63, func(s *Sale) { shape(s); s.MaxQuantity = 100 })
		res, err := v.store.Reserve(t.Context(), order(sale, "bulk", 60)) // of five buckets it takes all of one
		must(t, err)
		if !res.Granted {
			t.Fatalf("%+v", res)
		}
		// Lines of 2 and 2 are one order of 4.
		if res := v.reserve(t, order(sale, "ann", 4), NotEnough); res.Available != 3 {
			t.Fatalf("available %d, want 3", res.Available)
		}
		v.level(t, sale.ID, 3, 60, 0)
		// The same lines as two calls with one id are one line asked twice.
		o := order(sale, "bob", 2)
		res, err = v.store.Reserve(t.Context(), o)
		must(t, err)
		if !res.Granted {
			t.Fatalf("%+v", res)
		}
		v.reserve(t, o, Known)
		o.Quantity = 4
		v.reserve(t, o, Mismatch)
		v.level(t, sale.ID, 1, 62, 0)
		v.won(t, sale, "cid")
		v.level(t, sale.ID, 0, 63, 0)
	})
}

func TestStock_T04_NoStockThereIsNotPreheatedAndNeverSoldOut(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		if _, err := v.store.Reserve(t.Context(), order(planned(), "ann", 1)); !errors.Is(err, ErrUnknownSale) {
			t.Fatalf("a sale that was never preheated: %v", err)
		}
		sale := v.openSale(t, 50, shape)
		all := v.buckets(sale.ID)
		must(t, v.client.Unlink(t.Context(), all[len(all)-1].keys()...).Err())
		lost := userAt(sale, len(all)-1, len(all), 0)
		for range 3 {
			res, err := v.store.Reserve(t.Context(), order(sale, lost, 1))
			must(t, err)
			if res.Code != NotPreheated {
				t.Fatalf("%+v", res)
			}
			if view, _ := v.store.View(sale.ID); view.SoldOut || view.HoldsOut {
				t.Fatalf("a lost bucket looks sold out: %+v", view)
			}
		}
		if n := v.store.Stats().Stale; n != 3 {
			t.Fatalf("%d trips back to the source were counted, want 3", n)
		}
		if len(all) > 1 {
			res, err := v.store.Reserve(t.Context(), order(sale, userAt(sale, 0, len(all), 0), 1))
			must(t, err)
			if res.Code != Taken {
				t.Fatalf("the other buckets do not sell: %+v", res)
			}
		}
	})
}

func TestStock_T05_TwoHundredAtOnceForAHundredUnits(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 100, shape)
		stores := []*Store{v.store, v.replicaOf(t, "second", nil)}
		for _, users := range []int{1, 200} { // all at one bucket, then spread
			got := ask(t, 200, func(i int) (*Store, Order) {
				return stores[i%2], order(sale, fmt.Sprint("u", i%users), 1)
			})
			if got.wins() != 100 || got.of(NoneFreeNow) != 100 {
				t.Fatalf("%d users: %v", users, got)
			}
			checkInvariant(t, v.store, sale.ID)
			v.level(t, sale.ID, 0, 100, 0)
			if n := ledgerSum(t, v.store, sale.ID, Reserved); n != 100 {
				t.Fatalf("the ledger adds up to %d", n)
			}
			v.advance(t, sale.ID, sale.Hold)
			for range 2 {
				_, err := v.store.Sweep(t.Context(), sale.ID)
				must(t, err)
			}
			v.level(t, sale.ID, 100, 0, 0)
		}
	})
}

func TestStock_T06_TheInvariantHoldsWithEveryFeatureOffAndOn(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for mask := range 1 << 5 {
			on := func(bit int) bool { return mask>>bit&1 == 1 }
			must(t, v.client.FlushAll(t.Context()).Err())
			v.store = newStore(t, v.client, v.real == nil)
			sale := v.openSale(t, 50, func(s *Sale) {
				if on(0) {
					s.Buckets = 5
				}
				if on(1) {
					s.BuyerLimit = 5
				}
				if on(2) {
					s.Expiry = ExpiryAsk
				}
			})
			stores := make([]*Store, 2)
			for i := range stores {
				stores[i] = v.replicaOf(t, fmt.Sprint("r", i), func(c *Config, _ *redis.Options) {
					c.Refresh = storm
					if on(3) {
						c.Share = &Share{Buffer: 0.2}
					}
					if on(4) {
						c.Batch = 1
					}
				})
				must(t, stores[i].Refresh(t.Context()))
			}
			got := ask(t, 20, func(i int) (*Store, Order) { return stores[i%2], order(sale, fmt.Sprint("u", i), 5) })
			if got.wins() != 10 || got.of(NoneFreeNow) != 10 {
				t.Fatalf("features %05b: %v", mask, got)
			}
			checkInvariant(t, v.store, sale.ID)
			v.level(t, sale.ID, 0, 50, 0)
		}
	})
}

func TestStock_T07_ARepeatedWinnerTakesOneUnit(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, shape)
		o := order(sale, "ann", 1)
		v.reserve(t, o, Taken)
		v.reserve(t, o, Known)
		stores := []*Store{v.store, v.replicaOf(t, "second", nil)}
		o = order(sale, "bob", 1)
		got := ask(t, 100, func(i int) (*Store, Order) { return stores[i%2], o })
		if got.wins() != 1 || got.of(Known) != 99 || got.grants != 1 {
			t.Fatal(got)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 48, 2, 0)
	})
}

func TestStock_T08_ABuyerAtHisLimitDrainsNothing(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.BuyerLimit = 1 })
		stores := []*Store{v.store, v.replicaOf(t, "second", nil)}
		got := ask(t, 10, func(i int) (*Store, Order) { return stores[i%2], order(sale, "ann", 1) })
		if got.wins() != 1 || got.of(BuyerLimit) != 9 {
			t.Fatal(got)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 49, 1, 0)
	})
}

func TestStock_T27_TheLimitIsPerUserAndQuantitiesAreJudgedHere(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.BuyerLimit, s.MaxQuantity = 1, 5 })
		v.reserve(t, order(sale, "ann", 1), Taken)
		for range 4 {
			v.reserve(t, order(sale, "ann", 1), BuyerLimit)
		}
		for _, q := range []int64{600, -1, 0, 6, 1e18} {
			if res, err := v.store.Reserve(t.Context(), order(sale, "bob", q)); !errors.Is(err, ErrInvalidOrder) {
				t.Errorf("quantity %d: %+v, %v", q, res, err)
			}
		}
		v.reserve(t, order(sale, "bob", 2), BuyerLimit) // more than anybody may have
		long := order(sale, "bob", 1)
		long.Item = strings.Repeat("i", 70_000)
		if _, err := v.store.Reserve(t.Context(), long); !errors.Is(err, ErrInvalidOrder) {
			t.Error(err)
		}
		v.level(t, sale.ID, 49, 1, 0)
	})
}

// throughProxy is a replica whose commands pass a proxy.
func (v *env) throughProxy(t *testing.T, change func(*Config, *redis.Options)) (*Store, *redistest.Proxy) {
	t.Helper()
	target := ""
	if v.real != nil {
		target = v.real.socket
	} else {
		target = v.mini.Addr()
	}
	p := redistest.NewProxy(t, target)
	s := v.replicaOf(t, "proxied", func(c *Config, o *redis.Options) {
		o.Network, o.Addr, o.Dialer, o.ReadTimeout = "tcp", p.Addr(), nil, time.Second
		o.DisableIdentity = true
		if change != nil {
			change(c, o)
		}
	})
	return s, p
}

func TestStock_T15_AScriptWhoseReplyIsLostRunsOnce(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, shape)
		v.cacheScripts(t, sale)
		s, p := v.throughProxy(t, nil)
		must(t, s.Refresh(ctx))
		p.Reset()
		o := order(sale, "ann", 1)
		for _, step := range []struct {
			act  func() error
			want State
		}{
			{func() error { _, err := s.Reserve(ctx, o); return err }, Reserved},
			{func() error { _, err := s.Accept(ctx, sale.ID, o.ID, 1, "S-1"); return err }, Reserved},
			{func() error { _, err := s.Confirm(ctx, sale.ID, o.ID, 1, "S-1"); return err }, Confirmed},
			{func() error { _, err := s.Release(ctx, sale.ID, o.ID, 0); return err }, Returned},
		} {
			before := p.Count("EVALSHA")
			lost := p.DropReply("EVALSHA", 1)
			err := step.act()
			if !errors.Is(err, ErrOutcomeUnknown) || lost.Hits() != 1 || p.Count("EVALSHA")-before != 1 || p.Count("EVAL") != 0 {
				t.Fatalf("%s: %v; %v", step.want, err, p.Counts())
			}
			v.tookEffectOnce(t, sale, o, step.want, step.act)
		}
		v.level(t, sale.ID, 50, 0, 0)
	})
}

// cacheScripts runs every script of an order's life, and leaves nothing taken.
func (v *env) cacheScripts(t *testing.T, sale Sale) {
	t.Helper()
	id := v.won(t, sale, "warm").ID
	_, err1 := v.store.Accept(t.Context(), sale.ID, id, 1, "W")
	_, err2 := v.store.Confirm(t.Context(), sale.ID, id, 1, "W")
	_, err3 := v.store.Release(t.Context(), sale.ID, id, 0)
	must(t, errors.Join(err1, err2, err3))
}

// tookEffectOnce: the act whose answer was lost has happened, and doing it
// again changes nothing.
func (v *env) tookEffectOnce(t *testing.T, sale Sale, o Order, want State, act func() error) {
	t.Helper()
	r, err := v.store.Find(t.Context(), o.ID)
	v.settled(t, sale, want, nil, r, err)
	before, err := v.store.Level(t.Context(), sale.ID)
	must(t, err)
	must(t, act())
	after, err := v.store.Level(t.Context(), sale.ID)
	must(t, err)
	if before.Seq != after.Seq {
		t.Fatalf("%s twice: %+v became %+v", want, before, after)
	}
}

func TestStock_T32_AFlushedScriptCacheIsNotNoticed(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 100, shape)
		v.reserve(t, order(sale, "ann", 1), Taken)
		must(t, v.client.ScriptFlush(ctx).Err())
		v.reserve(t, order(sale, "bob", 1), Taken)

		// In a pipeline: the readings of five sales, none of whose scripts is known.
		for i := range 4 {
			v.openSale(t, 10, func(s *Sale) { s.ID, s.Item = fmt.Sprint("s", i), fmt.Sprint("i", i) })
		}
		before, err := v.store.Level(ctx, sale.ID)
		must(t, err)
		must(t, v.client.ScriptFlush(ctx).Err())
		must(t, v.store.Refresh(ctx))
		after, err := v.store.Level(ctx, sale.ID)
		must(t, err)
		if before.Seq != after.Seq || len(v.store.Views()) != 5 {
			t.Fatalf("%+v became %+v", before, after)
		}

		got := ask(t, 150, func(i int) (*Store, Order) {
			if i%10 == 0 {
				must(t, v.client.ScriptFlush(ctx).Err())
			}
			return v.store, order(sale, fmt.Sprint("u", i), 1)
		})
		if got.wins() != 98 {
			t.Fatal(got)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}
