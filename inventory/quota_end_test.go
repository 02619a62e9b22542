package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ended is a sale of ten that sold one and is over.
func (v *env) ended(t *testing.T) (sale Sale, sold Order) {
	t.Helper()
	sale = v.openSale(t, 10, nil)
	sold = v.won(t, sale, "ann")
	_, err := v.store.Confirm(t.Context(), sale.ID, sold.ID, 0, "S")
	must(t, err)
	v.advance(t, sale.ID, 2*time.Hour)
	must(t, v.store.Refresh(t.Context()))
	return sale, sold
}

func TestQuota_TheEndThawsLikeACancellation(t *testing.T) {
	v := memoryEnv(t) // the one whose clock can be set
	shop := v.withShop(t)
	sale, _ := v.ended(t)
	v.mended(t, sale.ID)
	if q := v.quotaIs(t, sale.ID, QuotaThawed); q.Unsold != 9 {
		t.Fatalf("%+v", q)
	}
	shop.holds(t, sale.ID, shopStock-1, 0)
}

func TestQuota_TheEndOnARealServer(t *testing.T) {
	v := realEnv(t)
	shop := v.withShop(t)
	sale := v.openSale(t, 10, func(s *Sale) { s.EndAt = v.redisNow(t).Add(50 * time.Millisecond) })
	eventually(t, "the end", func() bool { return v.redisNow(t).After(sale.EndAt) })
	v.mended(t, sale.ID)
	v.quotaIs(t, sale.ID, QuotaThawed)
	shop.holds(t, sale.ID, shopStock, 0)
}

func TestQuota_CancelledButNotInEveryBucketIsNotThawed(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets = 5 })
		_, err := v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		must(t, v.client.HSet(ctx, v.buckets(sale.ID)[3].headKey(), "desired", "on").Err()) // it did not get there
		must(t, v.store.mendQuotas(ctx))
		v.quotaIs(t, sale.ID, QuotaFrozen)
		shop.holds(t, sale.ID, shopStock-100, 100)
	})
}

func TestQuota_AnOpenLossIsNotThawed(t *testing.T) {
	v := memoryEnv(t)
	shop := v.withShop(t)
	sale := v.openSale(t, 10, nil)
	must(t, v.store.setDesired(t.Context(), sale.ID, DesiredPaused, gapReason))
	v.advance(t, sale.ID, 2*time.Hour)
	v.mended(t, sale.ID)
	v.quotaIs(t, sale.ID, QuotaFrozen)
	_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredOn) // somebody judged it
	must(t, err)
	v.mended(t, sale.ID)
	v.quotaIs(t, sale.ID, QuotaThawed)
	shop.holds(t, sale.ID, shopStock, 0)
}

func TestQuota_OfASaleThatRedisForgotIsNotThawed(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		shop := v.withShop(t)
		sale := v.openSale(t, 10, nil)
		v.won(t, sale, "ann")
		must(t, v.store.Refresh(t.Context()))
		must(t, v.client.HDel(t.Context(), salesKey(), sale.ID).Err())
		v.mended(t, sale.ID)
		v.quotaIs(t, sale.ID, QuotaFrozen)
		shop.holds(t, sale.ID, shopStock-10, 10)
	})
}

func TestQuota_AfterCleanupTheArchiveSaysWhatWasSold(t *testing.T) {
	v := memoryEnv(t)
	ctx, shop := t.Context(), newQuotaShop()
	v.store = v.replicaOf(t, "test", func(c *Config, _ *redis.Options) { c.Quota, c.Archive = shop, newCaseArchive() })
	sale, sold := v.ended(t)
	must(t, v.store.Cleanup(ctx, sale.ID)) // before anybody thawed
	v.mended(t, sale.ID)
	v.quotaIs(t, sale.ID, QuotaThawed)
	shop.holds(t, sale.ID, shopStock-1, 0)
	_, err := v.store.Release(ctx, sale.ID, sold.ID, 0)
	must(t, err)
	v.mended(t, sale.ID) // from here on it is the shop's own matter
	shop.holds(t, sale.ID, shopStock-1, 0)
}

func TestQuota_ASaleCancelledBeforeItsStartMayBeFrozenAgainForAnotherItem(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		_, second := v.later(t)
		_, err := v.store.SetDesired(ctx, second.ID, DesiredCancelled)
		must(t, err)
		v.mended(t, second.ID)
		shop.holds(t, second.ID, shopStock, 0)
		second.Item = "1002"
		_, err = v.store.Preheat(ctx, second)
		must(t, err)
		v.mended(t, second.ID)
		if q := v.quotaIs(t, second.ID, QuotaFrozen); q.Item != "1002" || q.Units != 20 {
			t.Fatalf("%+v", q)
		}
		shop.holds(t, second.ID, shopStock-20, 20)
	})
}

func TestQuota_RunDoesItByItself(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		sale := v.openSale(t, 10, nil)
		running(t, v.store)
		running(t, v.quotaReplica(t, shop, nil))
		_, err := v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		eventually(t, "the thaw", func() bool {
			q, err := v.store.Quota(ctx, sale.ID)
			return err == nil && q.Stage == QuotaThawed
		})
		shop.holds(t, sale.ID, shopStock, 0)
		if asked := shop.questions(); len(asked) != 2 {
			t.Fatalf("asked %v", asked)
		}
	})
}

func TestQuota_WithoutAHookNothingIsAskedAndTheOldStatesAreShown(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 10, nil)
		if _, err := v.store.Quota(ctx, sale.ID); !errors.Is(err, ErrUnknownSale) || v.client.Exists(ctx, quotasKey()).Val() != 0 {
			t.Fatal(err)
		}
		must(t, v.client.HSet(ctx, quotasKey(), "old", `{"sale":"old","state":"frozen","units":7}`, "bad", "{").Err())
		all, err := v.store.Quotas(ctx)
		if err != nil || len(all) != 1 || all[0].Units != 7 {
			t.Fatalf("%+v %v", all, err)
		}
	})
}

func TestQuota_TheirNumberIsBounded(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, shop := t.Context(), v.withShop(t)
		state := `{"sale":"%s","state":"%s","since":"2020-01-01T00:00:00Z"}`
		fill := make([]any, 0, 2*MaxQuotas)
		for i := range MaxQuotas {
			fill = append(fill, fmt.Sprint(i), fmt.Sprintf(state, fmt.Sprint(i), QuotaFrozen))
		}
		must(t, v.client.HSet(ctx, quotasKey(), fill...).Err())
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		if _, err := v.store.Preheat(ctx, sale); !errors.Is(err, ErrUnavailable) || len(shop.questions()) != 0 {
			t.Fatalf("%v, asked %v", err, shop.questions())
		}
		must(t, v.client.HSet(ctx, quotasKey(), "0", fmt.Sprintf(state, "0", QuotaThawed)).Err())
		_, err := v.store.Preheat(ctx, sale)
		must(t, err)
		if n := v.client.HLen(ctx, quotasKey()).Val(); n != MaxQuotas || v.client.HExists(ctx, quotasKey(), "0").Val() {
			t.Fatalf("%d quotas", n)
		}
	})
}
