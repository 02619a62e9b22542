package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// safe is a sale of 10 units with 2 more for safety that opens now.
func (v *env) safe(t *testing.T) Sale {
	return v.openSale(t, 10, func(s *Sale) { s.SafetyStock = 2 })
}

func TestQuota_IsFrozenWithThePreheatAndWhatIsNotSoldGoesBack(t *testing.T) { // S4-9, S4-11
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := v.openSale(t, 10, func(s *Sale) { shape(s); s.SafetyStock = 2 })
		shop.holds(t, sale.ID, shopStock-12, 12) // the safety stock too
		if q := v.quotaIs(t, sale.ID, QuotaFrozen); q.Units != 12 || q.Version != 1 || q.Item != sale.Item || q.Tries != 0 {
			t.Fatalf("%+v", q)
		}
		sold, kept := v.won(t, sale, "ann"), v.won(t, sale, "bob")
		_, err := v.store.Confirm(ctx, sale.ID, sold.ID, 0, "S")
		must(t, err)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaFrozen) // it runs

		_, err = v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaFrozen) // bob's is still reserved
		_, err = v.store.Release(ctx, sale.ID, kept.ID, 0)
		must(t, err)
		v.mended(t, sale.ID)
		if q := v.quotaIs(t, sale.ID, QuotaThawed); q.Unsold != 11 {
			t.Fatalf("%+v", q)
		}
		shop.holds(t, sale.ID, shopStock-1, 0)
		if asked := shop.questions(); !slices.Equal(asked, []string{"freeze 12", "thaw 11"}) {
			t.Fatalf("asked %v", asked)
		}
	})
}

func TestQuota_WhatComesBackOrIsPaidLateIsThawedAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := v.safe(t)
		back, late := v.won(t, sale, "ann"), v.won(t, sale, "bob")
		_, err := v.store.Confirm(ctx, sale.ID, back.ID, 0, "S")
		must(t, err)
		_, err = v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		v.advance(t, sale.ID, sale.Hold+attempt)
		_, err = v.store.Sweep(ctx, sale.ID)
		must(t, err)
		v.mended(t, sale.ID)
		shop.holds(t, sale.ID, shopStock-1, 0)

		_, err = v.store.Release(ctx, sale.ID, back.ID, 0)
		must(t, err)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaThawed)
		shop.holds(t, sale.ID, shopStock, 0)

		r, err := v.store.Confirm(ctx, sale.ID, late.ID, 0, "S")
		must(t, err)
		if r.State != Confirmed {
			t.Fatalf("%+v", r)
		}
		shop.troubled(refusing422) // it sold the unit elsewhere meanwhile
		v.mended(t, sale.ID)
		if q := v.quotaIs(t, sale.ID, QuotaThawing); !q.Refused || !strings.Contains(q.Fault, "only 5 left") {
			t.Fatalf("%+v", q)
		}
		shop.troubled(nil)
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaThawed)
		shop.holds(t, sale.ID, shopStock-1, 0)
	})
}

func TestQuota_AnotherVersionChangesTheNumberAndNothingElse(t *testing.T) { // S4-8, T-28
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale, _ := v.later(t)
		for i, c := range []struct {
			change func(*Sale)
			units  int64
			asked  []string
		}{
			{func(s *Sale) { s.StartAt = s.StartAt.Add(10 * time.Minute) }, 10, nil},
			{func(s *Sale) { s.Total = 30 }, 30, []string{"freeze 30"}},
			{func(s *Sale) { s.Total, s.SafetyStock = 5, 1 }, 6, []string{"freeze 6"}},
		} {
			shop.troubled(nil)
			sale.Version++
			c.change(&sale)
			for range 2 { // the job runs again
				_, err := v.store.Preheat(ctx, sale)
				must(t, err)
				v.mended(t, sale.ID)
			}
			shop.holds(t, sale.ID, shopStock-c.units, c.units)
			if q := v.quotaIs(t, sale.ID, QuotaFrozen); q.Version != sale.Version || q.Units != c.units {
				t.Fatalf("%+v", q)
			}
			if asked := shop.questions(); !slices.Equal(asked, c.asked) {
				t.Fatalf("%d: asked %v", i, asked)
			}
		}
	})
}

func TestQuota_FewerUnitsAreFrozenOnlyOnceFewerAreOnSale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		first, second := v.later(t)
		second.Total = 4
		shop.troubled(func(string, QuotaAsk) (error, bool) {
			must(t, v.store.Refresh(context.Background()))
			if view, _ := v.store.View(first.ID); view.Sale.Total != 4 {
				t.Errorf("asked while %d are on sale", view.Sale.Total)
			}
			return nil, false
		})
		_, err := v.store.Preheat(t.Context(), second)
		must(t, err)
		shop.holds(t, first.ID, shopStock-4, 4)
	})
}

func TestQuota_ARefusalRefusesThePreheat(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		_, second := v.later(t)
		shop.troubled(func(verb string, ask QuotaAsk) (error, bool) {
			if ask.Units == 20 {
				return refusing422(verb, ask)
			}
			return nil, false
		})
		for _, sale := range []Sale{second, {ID: "fresh", Version: 1, Item: "1002", EndAt: second.EndAt, Total: 20, MaxQuantity: 1, Hold: time.Second, Expiry: ExpiryFree, Settle: SettleAccept}} {
			before := v.store.Stats().Refused
			_, err := v.store.Preheat(ctx, sale)
			if !errors.Is(err, ErrInvalidPreheat) || !errors.Is(err, ErrQuotaRefused) || !strings.Contains(err.Error(), "only 5 left") {
				t.Fatalf("%s: %v", sale.ID, err)
			}
			if got := v.store.Stats().Refused - before; got != 1 {
				t.Fatalf("%s: %d refusals counted", sale.ID, got)
			}
		}
		v.mended(t, second.ID)
		view, _ := v.store.View(second.ID)
		if _, ok := v.store.View("fresh"); ok || view.Sale.Version != 1 || len(v.generations(t, "fresh")) != 0 {
			t.Fatalf("%+v", view)
		}
		if q := v.quotaIs(t, second.ID, QuotaFrozen); q.Units != 10 || q.Version != 1 {
			t.Fatalf("%+v", q)
		}
		v.quotaIs(t, "fresh", QuotaThawed)
		shop.holds(t, second.ID, shopStock-10, 10)
	})
}

func TestQuota_RefusesAnotherItemAndTooMuch(t *testing.T) {
	v := memoryEnv(t)
	shop := v.withShop(t)
	_, second := v.later(t)
	for want, change := range map[error]func(*Sale){
		ErrInvalidPreheat: func(s *Sale) { s.Item = "1002" },
		ErrInvalidSale:    func(s *Sale) { s.SafetyStock = maxUnits },
	} {
		sale := second
		change(&sale)
		if _, err := v.store.Preheat(t.Context(), sale); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	shop.holds(t, second.ID, shopStock-10, 10)
}

func TestQuota_AStartedSaleIsNotFrozenAnew(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		sale := v.safe(t)
		sale.Version, sale.Total = 2, 50
		if _, err := v.store.Preheat(t.Context(), sale); !errors.Is(err, ErrSaleStarted) {
			t.Fatal(err)
		}
		if asked := shop.questions(); len(asked) != 1 {
			t.Fatalf("asked %v", asked)
		}
	})
}

func TestQuota_UnknownOutcomesAreAskedAgainAndNeverDoubled(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for n := 1; n <= quotaTries+1; n++ {
				must(t, v.client.FlushAll(t.Context()).Err())
				shop := v.withShop(t)
				shop.troubled(failing(n, applied))
				sale := planned()
				sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
				_, err := v.store.Preheat(t.Context(), sale)
				if gaveUp := n >= quotaTries; gaveUp != (err != nil) || gaveUp && !errors.Is(err, ErrUnavailable) {
					t.Fatalf("%d failures, applied %v: %v", n, applied, err)
				}
				if err != nil {
					v.quotaIs(t, sale.ID, QuotaFreezing)
					_, err = v.store.Preheat(t.Context(), sale) // the caller repeats it
					must(t, err)
				}
				v.quotaIs(t, sale.ID, QuotaFrozen)
				shop.holds(t, sale.ID, shopStock-sale.Total, sale.Total)
			}
		}
	})
}

func TestQuota_WhatAnAbandonedPreheatFrozeIsGivenBack(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			shop := v.withShop(t)
			shop.troubled(failing(quotaTries, applied))
			sale := planned()
			sale.ID, sale.StartAt, sale.EndAt = fmt.Sprint("s", applied), time.Time{}, v.redisNow(t).Add(time.Hour)
			if _, err := v.store.Preheat(t.Context(), sale); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
			must(t, v.store.Refresh(t.Context()))
			must(t, v.store.mendQuotas(t.Context()))
			v.quotaIs(t, sale.ID, QuotaFreezing) // young: somebody may be at it
			v.mended(t, sale.ID)
			v.quotaIs(t, sale.ID, QuotaThawed)
			shop.holds(t, sale.ID, shopStock, 0)
		}
	})
}
