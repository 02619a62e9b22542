package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// eachFault runs a test for every command to Redis that may fail, once it was
// not done and once only its answer was lost; test says whether it came to that.
func eachFault(t *testing.T, count int, test func(t *testing.T, v *env, f *fault) bool) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for step := 1; ; step++ {
				must(t, v.client.FlushAll(t.Context()).Err())
				f := &fault{from: step, count: count, applied: applied}
				hit := false
				if !t.Run(fmt.Sprintf("step %d applied %v", step, applied), func(t *testing.T) { hit = test(t, v, f) }) || !hit {
					break
				}
			}
		}
	})
}

// frozenAsInForce: the shop froze what is on sale and nothing more, and after
// the end all that was not sold is back.
func (v *env) frozenAsInForce(t *testing.T, shop *quotaShop, sale string) {
	t.Helper()
	v.mended(t, sale)
	view, ok := v.store.View(sale)
	if !ok {
		shop.holds(t, sale, shopStock, 0)
		return
	}
	shop.holds(t, sale, shopStock-view.Sale.Total, view.Sale.Total)
	if q := v.quotaIs(t, sale, QuotaFrozen); q.Version != view.Sale.Version || q.Fault != "" {
		t.Fatalf("%+v beside version %d", q, view.Sale.Version)
	}
	_, err := v.store.SetDesired(t.Context(), sale, DesiredCancelled)
	must(t, err)
	v.mended(t, sale)
	v.quotaIs(t, sale, QuotaThawed)
	shop.holds(t, sale, shopStock, 0)
}

func TestQuota_EachStepOfAFirstPreheatFailing(t *testing.T) {
	eachFault(t, 1, func(t *testing.T, v *env, f *fault) bool {
		shop := v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		_, err := v.quotaReplica(t, shop, f).Preheat(t.Context(), sale)
		must(t, v.store.Refresh(t.Context()))
		if _, ok := v.store.View(sale.ID); err == nil && !ok {
			t.Fatal("success was told")
		}
		v.frozenAsInForce(t, shop, sale.ID)
		return f.hits > 0
	})
}

func TestQuota_EachStepOfASecondVersionFailing(t *testing.T) {
	for _, total := range []int64{20, 4} {
		t.Run(fmt.Sprint("from 10 to ", total), func(t *testing.T) {
			eachFault(t, 1, func(t *testing.T, v *env, f *fault) bool {
				shop := v.withShop(t)
				_, second := v.later(t)
				second.Total = total
				_, err := v.quotaReplica(t, shop, f).Preheat(t.Context(), second)
				must(t, v.store.Refresh(t.Context()))
				if view, _ := v.store.View(second.ID); err == nil && view.Sale.Version != 2 {
					t.Fatal("success was told")
				}
				v.frozenAsInForce(t, shop, second.ID)
				return f.hits > 0
			})
		})
	}
}

func TestQuota_DyingAtAnyStepIsMendedByAnother(t *testing.T) {
	eachFault(t, 0, func(t *testing.T, v *env, f *fault) bool {
		shop := v.withShop(t)
		_, second := v.later(t)
		_, _ = v.quotaReplica(t, shop, f).Preheat(t.Context(), second)
		v.frozenAsInForce(t, shop, second.ID)
		return f.hits > 0
	})
}

func TestQuota_EachStepOfAThawFailing(t *testing.T) {
	eachFault(t, 1, func(t *testing.T, v *env, f *fault) bool {
		ctx, shop := t.Context(), v.withShop(t)
		sale := v.openSale(t, 10, nil)
		o := v.won(t, sale, "ann")
		_, err := v.store.Confirm(ctx, sale.ID, o.ID, 0, "S")
		must(t, err)
		_, err = v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		other := v.quotaReplica(t, shop, f)
		_ = other.Refresh(ctx)
		_ = other.mendQuotas(ctx)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaThawed)
		shop.holds(t, sale.ID, shopStock-1, 0)
		return f.hits > 0
	})
}

func TestQuota_AShopThatIsAwayIsAskedAgainWithPausesAndShown(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			ctx := t.Context()
			must(t, v.client.FlushAll(ctx).Err())
			shop := v.withShop(t)
			sale := v.openSale(t, 10, nil)
			_, err := v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
			must(t, err)
			shop.troubled(failing(3, applied))
			for n := 1; n <= 3; n++ {
				for range 2 { // the second time it is not due
					must(t, v.store.Refresh(ctx))
					must(t, v.store.mendQuotas(ctx))
				}
				all, err := v.store.Quotas(ctx)
				must(t, err)
				if len(all) != 1 || all[0].Stage != QuotaThawing || all[0].Tries != n || all[0].Fault != errShopDown.Error() || all[0].Refused {
					t.Fatalf("%+v", all)
				}
				if wait, want := all[0].Next.Sub(v.redisNow(t)), quotaWait(n); wait > want || wait < want-time.Second {
					t.Fatalf("try %d: the next one in %v", n, wait)
				}
				if asked := len(shop.questions()); asked != n {
					t.Fatalf("asked %d times", asked)
				}
				v.quotaAged(t, sale.ID)
			}
			must(t, v.store.mendQuotas(ctx))
			if q := v.quotaIs(t, sale.ID, QuotaThawed); q.Fault != "" || q.Tries != 0 || !q.Next.IsZero() {
				t.Fatalf("%+v", q)
			}
			shop.holds(t, sale.ID, shopStock, 0)
		}
	})
}

func TestQuota_ThePausesGrowToAMinute(t *testing.T) {
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1 << 40: time.Minute} {
		if got := quotaWait(n); got != want {
			t.Errorf("after %d tries: %v", n, got)
		}
	}
}

func TestQuota_AFreezeThatIsOvertakenByItsThawFreezesNothing(t *testing.T) { // H-3
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		var late QuotaAsk
		shop.troubled(func(verb string, ask QuotaAsk) (error, bool) {
			if verb == "freeze" {
				late = ask // stays on the road
				return errShopDown, false
			}
			return nil, false
		})
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		if _, err := v.store.Preheat(t.Context(), sale); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaThawed)
		shop.troubled(nil)
		if err := shop.Freeze(t.Context(), late); !errors.Is(err, ErrQuotaRefused) {
			t.Fatal(err)
		}
		shop.holds(t, sale.ID, shopStock, 0)
	})
}

func TestQuota_APreheatWhoseQuotaWasTakenBackDoesNotSwitch(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		f := &freeze{s: v.store, plan: sale}
		must(t, f.begin(ctx, record{}))
		v.mended(t, sale.ID) // it slept for long
		if err := v.store.preheat(ctx, sale, f); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		f.end(ctx)
		if g := v.generations(t, sale.ID); len(g) != 0 {
			t.Fatalf("keys of generations %v", g)
		}
		shop.holds(t, sale.ID, shopStock, 0)
		_, err := v.store.Preheat(ctx, sale)
		must(t, err)
		shop.holds(t, sale.ID, shopStock-100, 100)
	})
}

func TestQuota_APreheatThatHasItsLeaseIsLeftAlone(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		f := &freeze{s: v.store, plan: sale}
		must(t, f.begin(ctx, record{}))
		generation, err := v.store.lease(ctx, sale.ID)
		must(t, err)
		v.quotaAged(t, sale.ID)
		must(t, v.store.mendQuotas(ctx))
		v.quotaIs(t, sale.ID, QuotaFrozen)
		must(t, v.store.writeAndSwitch(ctx, sale, generation, f))
		_, err = v.store.finish(ctx, sale.ID, generation)
		must(t, err)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaFrozen)
		shop.holds(t, sale.ID, shopStock-100, 100)
	})
}

// interposed runs do once, before the first call of a script.
type interposed struct {
	sha string
	do  func()
}

func (h *interposed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *interposed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if do := h.do; do != nil && slices.Contains(cmd.Args(), any(h.sha)) {
			h.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

func (h *interposed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestQuota_APreheatThatSwitchesWhileItIsJudgedKeepsItsQuota(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		f := &freeze{s: v.store, plan: sale}
		must(t, f.begin(ctx, record{}))
		generation, err := v.store.lease(ctx, sale.ID)
		must(t, err)
		must(t, f.hold(ctx))
		v.quotaAged(t, sale.ID)
		judge := v.quotaReplica(t, shop, nil)
		switched := false
		judge.redis.AddHook(&interposed{sha: judge.scripts.begin.sha, do: func() {
			must(t, v.store.writeAndSwitch(ctx, sale, generation, nil))
			_, err := v.store.finish(ctx, sale.ID, generation)
			must(t, err)
			switched = true
		}})
		must(t, judge.mendQuotas(ctx))
		if !switched {
			t.Fatal("nothing was interposed")
		}
		v.quotaIs(t, sale.ID, QuotaFrozen)
		shop.holds(t, sale.ID, shopStock-100, 100)
	})
}

func TestQuota_ALostAnswerOfRedisIsLookedUp(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		s := v.quotaReplica(t, shop, nil)
		must(t, v.client.ScriptLoad(t.Context(), s.quota.put.src).Err())
		lost := 0
		s.redis.AddHook(&losing{sha: s.quota.put.sha, lost: &lost})
		_, err := s.Preheat(t.Context(), sale)
		must(t, err)
		if lost != 3 || !slices.Equal(shop.questions(), []string{"freeze 100"}) { // freezing, frozen, held
			t.Fatalf("%d answers lost, asked %v", lost, shop.questions())
		}
		v.quotaIs(t, sale.ID, QuotaFrozen)
	})
}

// losing loses every answer of one script.
type losing struct {
	interposed
	sha  string
	lost *int
}

func (l *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && slices.Contains(cmd.Args(), any(l.sha)) {
			*l.lost++
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return err
	}
}

func TestQuota_APreheatThatAnotherOvertakesOnTheWayToTheShopIsNotRefused(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = v.redisNow(t).Add(time.Minute), v.redisNow(t).Add(time.Hour)
		other := v.quotaReplica(t, shop, nil)
		var overtaken atomic.Bool
		shop.troubled(func(string, QuotaAsk) (error, bool) {
			if overtaken.CompareAndSwap(false, true) {
				_, err := other.Preheat(ctx, sale)
				must(t, err)
			}
			return nil, true
		})
		if _, err := v.store.Preheat(ctx, sale); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrInvalidPreheat) {
			t.Fatalf("%v", err)
		}
		_, err := v.store.Preheat(ctx, sale)
		must(t, err)
		v.frozenAsInForce(t, shop, sale.ID)
	})
}

func TestQuota_OfTwoReplicasAtOnceFreezesOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		stores := []*Store{v.store, v.quotaReplica(t, shop, nil), v.quotaReplica(t, shop, nil)}
		errs := make([]error, len(stores))
		parallel(t, len(stores), func(i int) error {
			_, errs[i] = stores[i].Preheat(ctx, sale)
			return nil
		})
		if !slices.Contains(errs, nil) {
			t.Fatal(errs)
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		v.frozenAsInForce(t, shop, sale.ID)
	})
}

func TestQuota_OfTwoWhoWriteTheSameStepInOneMillisecondOneTakesIt(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		sale := v.openSale(t, 10, nil)
		h, err := v.store.lookQuota(t.Context(), sale.ID)
		must(t, err)
		step := h.thaw(0)
		step.Step = h.next()
		must(t, second(v.store.putQuota(t.Context(), h, step)))
		if _, err := v.quotaReplica(t, shop, nil).putQuota(t.Context(), h, step); !errors.Is(err, errQuotaMoved) {
			t.Fatalf("both would ask the shop: %v", err)
		}
	})
}
