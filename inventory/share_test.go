package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const buffer = 0.2

// sharing are n replicas that know of each other, with the views read that often.
func (v *env) sharing(t *testing.T, n int, every time.Duration) []*Store {
	t.Helper()
	stores := make([]*Store, n)
	for i := range stores {
		stores[i] = v.replicaOf(t, fmt.Sprint("r", i), func(c *Config, o *redis.Options) {
			c.Share, c.Refresh, o.PoolSize = &Share{Buffer: buffer}, every, 32
		})
	}
	// The store that opened the sale is none of them.
	must(t, v.client.HDel(t.Context(), replicasKey(), "test").Err())
	for range 2 { // the second time all have been heard of
		for _, s := range stores {
			must(t, s.Refresh(t.Context()))
		}
	}
	return stores
}

// asked is how many orders these replicas have sent to Redis.
func asked(stores ...*Store) (n int64) {
	for _, s := range stores {
		n += s.Stats().Orders
	}
	return n
}

func TestShare_QuotaIsAnEvenPartWithABuffer(t *testing.T) {
	for _, c := range []struct {
		free, replicas int64
		buffer         float64
		want           int64
	}{
		{300, 3, 0.2, 120}, {100, 3, 0, 34}, {100, 3, 0.2, 40}, {1, 3, 0, 1}, {1, 3, 0.2, 1}, {10, 0, 0, 10}, {0, 3, 0.2, 0}, {-1, 1, 0, 0},
	} {
		if got := (Share{Buffer: c.buffer}).quota(c.free, c.replicas); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// sellOut has buyers ask, again and again, until all units are confirmed or
// reserved; it fails when that takes too many rounds.
func (v *env) sellOut(t *testing.T, sale Sale, crowd int, at func(i int) *Store, won func(Reservation)) {
	t.Helper()
	var number atomic.Int64
	eventually(t, "everything is sold", func() bool { // what is free shows at the next reading
		l, err := v.store.Level(t.Context(), sale.ID)
		must(t, err)
		if l.Free == 0 && l.OnLoan == 0 {
			return true
		}
		parallel(t, crowd, func(i int) error {
			res, err := at(i).Reserve(t.Context(), order(sale, fmt.Sprint("u", number.Add(1)), 1))
			if err == nil && res.Granted {
				won(res.Reservation)
			}
			return err
		})
		return false
	})
}

func nothing(Reservation) {}

// Without a new reading, nobody sends more than his share, whatever the crowd.
func TestShare_IsAllThatIsSentUntilTheNextReading(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 90, nil)
		stores := v.sharing(t, 3, time.Minute)
		soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var wins atomic.Int64
		parallel(t, 600, func(i int) error {
			res, err := stores[i%3].Reserve(soon, order(sale, fmt.Sprint("u", i), 1))
			if res.Granted {
				wins.Add(1)
			}
			if errors.Is(err, ErrUnavailable) { // he waited for the level
				err = nil
			}
			return err
		})
		same(t, "wins", wins.Load(), 90)
		if a := asked(stores...); a > 3*36 {
			t.Fatalf("%d orders reached Redis, the shares allow %d", a, 3*36)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

// TestShare_BoundsTheCallsToRedis: with readings four times a second, shares
// are renewed. When nothing is left each replica has at most one share on its
// way; every order before that was a win. The crowd does not matter.
func TestShare_BoundsTheCallsToRedis(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 90, nil)
		const replicas, each = 3, 36 // ceil(90 / 3 × 1.2)
		stores := v.sharing(t, replicas, 250*time.Millisecond)
		n := &counting{}
		for _, s := range stores {
			s.redis.AddHook(n)
			running(t, s)
		}
		began := time.Now()
		got := ask(t, 600, func(i int) (*Store, Order) { return stores[i%replicas], order(sale, fmt.Sprint("u", i), 1) })
		seconds := time.Since(began).Seconds()
		if got.wins() != 90 || got.of(NoneFreeNow) != 510 {
			t.Fatal(got)
		}
		if a := asked(stores...); a > 90+replicas*each {
			t.Fatalf("%d orders reached Redis, the shares allow %d", a, 90+replicas*each)
		}
		// A look at the level is three commands: records, heartbeat, one bucket.
		looks := int64(replicas * (4*seconds + 2))
		if c := n.commands.Load(); c > 90+replicas*each+3*looks {
			t.Fatalf("%d commands in %.1f s, %d orders and %d looks are allowed", c, seconds, 90+replicas*each, looks)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 90, 0)
	})
}

func TestShare_AllTrafficOnOneOfThreeSellsEverything(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 60, shape)
		stores := v.sharing(t, 3, storm)
		for _, s := range stores {
			running(t, s)
		}
		v.sellOut(t, sale, 50, func(int) *Store { return stores[0] }, nothing)
		// No order was sent in vain while units were free, but for the last ones.
		if a := asked(stores...); a > 3*24+3 {
			t.Fatalf("%d orders reached Redis for 60 units", a)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestShare_ADeadReplicasPartIsSoldByTheOthers(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 60, nil)
		stores := v.sharing(t, 3, storm)
		if e, err := stores[0].entry(t.Context(), sale.ID); err != nil || e.share.left.Load() != 24 {
			t.Fatalf("with three replicas a share is %d, want 24 (%v)", e.share.left.Load(), err)
		}
		// The third is dead, and its last heartbeat too old.
		if v.mini != nil {
			v.advance(t, sale.ID, beatFor+time.Second)
		} else {
			must(t, v.client.HSet(t.Context(), replicasKey(), "r2", "1").Err())
		}
		for range 2 {
			must(t, stores[0].Refresh(t.Context()))
			must(t, stores[1].Refresh(t.Context()))
		}
		if n := stores[0].views.Load().replicas; n != 2 {
			t.Fatalf("%d replicas count as alive", n)
		}
		running(t, stores[0])
		running(t, stores[1])
		v.sellOut(t, sale, 40, func(i int) *Store { return stores[i%2] }, nothing)
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestShare_WithFortyPercentOfHoldsExpiringEverythingSells(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, shape)
		stores := v.sharing(t, 3, storm)
		for _, s := range stores {
			running(t, s)
		}
		var mu sync.Mutex
		var paying []Reservation
		for number := 0; ; {
			v.sellOut(t, sale, 60, func(i int) *Store { return stores[i%3] }, func(r Reservation) {
				mu.Lock()
				defer mu.Unlock()
				if number++; number%5 >= 2 { // three of five pay
					paying = append(paying, r)
				}
			})
			for _, r := range paying {
				_, err := stores[r.Bucket%3].Confirm(t.Context(), sale.ID, r.ID, 1, "S")
				must(t, err)
			}
			paying = nil
			l, err := v.store.Level(t.Context(), sale.ID)
			must(t, err)
			if l.Confirmed == 50 {
				break
			}
			v.advance(t, sale.ID, sale.Hold) // no sweeper: the replicas see what is due
			eventually(t, "due holds are freed", func() bool {
				l, err := v.store.Level(t.Context(), sale.ID)
				return err == nil && l.Free > 0
			})
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 0, 50)
	})
}

func TestShare_SoldOutFromMemoryCostsNoCall(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, func(s *Sale) { shape(s); s.MaxQuantity = 50 })
		bulk := order(sale, "bulk", 50)
		_, err := v.store.Reserve(t.Context(), bulk)
		must(t, err)
		s := v.sharing(t, 1, time.Minute)[0] // nothing but orders asks Redis
		n := &counting{}
		s.redis.AddHook(n)
		held := ask(t, 1000, func(i int) (*Store, Order) { return s, order(sale, fmt.Sprint("u", i), 1) })
		if held.of(NoneFreeNow) != 1000 || n.commands.Load() != 0 {
			t.Fatalf("%v with %d commands", held, n.commands.Load())
		}
		_, err = v.store.Confirm(t.Context(), sale.ID, bulk.ID, 1, "S")
		must(t, err)
		for range 2 { // two equal readings
			must(t, s.Refresh(t.Context()))
		}
		n.commands.Store(0)
		began := s.nano()
		got := ask(t, 1000, func(i int) (*Store, Order) { return s, order(sale, fmt.Sprint("v", i), 1) })
		if n.commands.Load() != 0 {
			t.Fatalf("%v with %d commands", got, n.commands.Load())
		}
		// The mark lives 450 ms without a new reading; later it is "none free now".
		if got.of(NotEnough) != 1000 && s.nano()-began < int64(200*time.Millisecond) || got.of(NotEnough, NoneFreeNow) != 1000 {
			t.Fatal(got)
		}
		res, err := s.Reserve(t.Context(), order(sale, "one more", 1))
		must(t, err)
		if !res.FromMemory {
			t.Fatalf("%+v", res)
		}
	})
}
