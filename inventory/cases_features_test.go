package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

func TestStock_S116_TheSafetyStockIsNotSold(t *testing.T) { // 1000 planned, 980 sold
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 980, func(s *Sale) { s.SafetyStock, s.Buckets, s.BuyerLimit = 20, 5, 0 })
		if got := ask(t, 1100, func(i int) (*Store, Order) { return v.store, order(sale, fmt.Sprint("u", i), 1) }); got.wins() != 980 {
			t.Fatal(got)
		}
		v.level(t, sale.ID, 0, 980, 0)
		checkInvariant(t, v.store, sale.ID)
	})
}

// TestStock_T05_WithSharesEverythingSellsAndNotMore: who was told to come again
// does so, until all units are taken.
func TestStock_T05_WithSharesEverythingSellsAndNotMore(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 100, func(s *Sale) { shape(s); s.BuyerLimit = 0 })
		stores := make([]*Store, 3)
		for i := range stores {
			stores[i] = v.replicaOf(t, fmt.Sprint("r", i), func(c *Config, o *redis.Options) {
				c.Share, c.Refresh, o.PoolSize = &Share{Buffer: buffer}, storm, 64
			})
			running(t, stores[i])
		}
		wins := 0
		for round := 0; wins < 100 && round < 50; round++ {
			got := ask(t, 200, func(i int) (*Store, Order) { return stores[i%3], order(sale, fmt.Sprint("u", round, "-", i), 1) })
			if got.of(NotEnough) > 0 {
				t.Fatalf("sold out while units are held: %v", got)
			}
			wins += got.wins()
		}
		if n := ledgerSum(t, v.store, sale.ID, Reserved); n != 100 || wins != 100 {
			t.Fatalf("%d units reserved, %d wins", n, wins)
		}
		v.level(t, sale.ID, 0, 100, 0)
		checkInvariant(t, v.store, sale.ID)
	})
}

// TestStock_T06_TheInvariantHoldsWithEveryKeeperOffAndOn: what weir keeps beside
// the stock, and how long it waits for it.
func TestStock_T06_TheInvariantHoldsWithEveryKeeperOffAndOn(t *testing.T) {
	master, _ := redistest.Replicated(t)
	v := &env{client: master.Client(t), real: &realRedis{}}
	for mask := range 1 << 5 {
		on := func(bit int) bool { return mask>>bit&1 == 1 }
		must(t, v.client.FlushAll(t.Context()).Err())
		stores := make([]*Store, 2)
		shop := newQuotaShop()
		for i := range stores {
			stores[i] = v.replicaOf(t, fmt.Sprint("r", i), func(c *Config, o *redis.Options) {
				c.Refresh, o.PoolSize = storm, 64
				if on(0) {
					c.Marks = &notebook{}
				}
				if on(1) {
					c.Archive = newCaseArchive()
				}
				if on(2) {
					c.Quota = shop
				}
				if on(3) {
					c.Share = &Share{Buffer: buffer}
				}
				if on(4) {
					c.Wait = Wait{Replicas: 1, Timeout: 5 * time.Second}
				}
			})
		}
		v.store = stores[0]
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.BuyerLimit = 2, 0 })
		must(t, stores[1].Refresh(t.Context()))
		got := ask(t, 40, func(i int) (*Store, Order) { return stores[i%2], order(sale, fmt.Sprint("u", i), 5) })
		if got.wins() != 20 || got.of(NoneFreeNow) != 20 {
			t.Fatalf("keepers %05b: %v", mask, got)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 100, 0)
	}
}
