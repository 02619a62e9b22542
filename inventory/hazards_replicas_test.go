package inventory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// mortal is a replica that can be cut off from Redis for good.
type mortal struct {
	store *Store
	link  *redistest.Proxy
}

func (v *env) mortal(t *testing.T, name string) mortal {
	s, p := v.throughProxy(t, func(c *Config, o *redis.Options) {
		c.Replica, c.Share, c.Refresh, o.PoolSize = name, &Share{Buffer: buffer}, 50*time.Millisecond, 32
	})
	running(t, s)
	return mortal{s, p}
}

// H-19: a replica that dies takes its unsold share with it. In a storm three of
// three are replaced, and everything sells, once.
func TestStock_H19_ReplicasDieInAStormAndEverythingSells(t *testing.T) {
	for _, buckets := range []int{1, 5} {
		t.Run(fmt.Sprint(buckets, " buckets"), func(t *testing.T) {
			v := realEnv(t)
			const units = 300
			sale := v.openSale(t, units, func(s *Sale) { s.Buckets, s.BuyerLimit = buckets, 0 })
			must(t, v.client.HDel(t.Context(), replicasKey(), "test").Err()) // it only looks on
			var living [3]atomic.Pointer[mortal]
			for i := range living {
				m := v.mortal(t, fmt.Sprint("r", i))
				living[i].Store(&m)
			}
			stop, buyers := make(chan struct{}), sync.WaitGroup{}
			var n, told atomic.Int64
			for i := range 12 {
				buyers.Go(func() {
					pace := time.NewTicker(5 * time.Millisecond)
					defer pace.Stop()
					for {
						select {
						case <-stop:
							return
						case <-pace.C:
						}
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						res, err := living[i%3].Load().store.Reserve(ctx, order(sale, fmt.Sprint("u", n.Add(1)), 1))
						cancel()
						if err == nil && res.Granted {
							told.Add(1)
						}
					}
				})
			}
			for i := range living {
				eventually(t, "some more are sold", func() bool { return told.Load() >= int64(30*(i+1)) })
				dead := living[i].Load()
				heir := v.mortal(t, fmt.Sprint("heir", i))
				living[i].Store(&heir)
				dead.link.Refuse()
			}
			sold := func() Level {
				l, err := v.store.Level(context.Background(), sale.ID)
				must(t, err)
				return l
			}
			eventually(t, "all is sold", func() bool { l := sold(); return l.Free == 0 && l.OnLoan == 0 })
			close(stop)
			buyers.Wait()
			checkInvariant(t, v.store, sale.ID)
			if l := sold(); l.Reserved != units || told.Load() > units {
				t.Errorf("%d units taken, %d wins told", l.Reserved, told.Load())
			}
		})
	}
}
