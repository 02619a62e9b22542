package inventory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// soonest is how long a unit may be free and somebody still be told sold out.
const soonest = 500 * time.Millisecond

// observer looks at all buckets at one moment, again and again.
type observer struct {
	client *redis.Client
	heads  []string
	since  atomic.Pointer[time.Time] // units have been free all the time since then; nil: none are
	looks  atomic.Int64
}

// look is atomic: one MULTI on one server.
func (o *observer) look(ctx context.Context) error {
	pipe := o.client.TxPipeline()
	cmds := make([]*redis.StringCmd, len(o.heads))
	for i, key := range o.heads {
		cmds[i] = pipe.HGet(ctx, key, "free")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	now := time.Now()
	free := int64(0)
	for _, c := range cmds {
		n, err := c.Int64()
		if err != nil {
			return err
		}
		free += n
	}
	switch {
	case free == 0:
		o.since.Store(nil)
	case o.since.Load() == nil:
		o.since.Store(&now)
	}
	o.looks.Add(1)
	return nil
}

// lied says for how long units had been free, without a break that was seen,
// when an answer was asked for; and they still were when it came.
func (o *observer) lied(asked time.Time) (time.Duration, bool) {
	since := o.since.Load()
	if since == nil {
		return 0, false
	}
	d := asked.Sub(*since)
	return d, d > soonest
}

// TestSoldOut_NobodyIsToldSoWhileAUnitHasBeenFreeForHalfASecond: three replicas,
// buyers who ask the mark first and then Redis, units that come back at any
// time on any replica. None reads the views meanwhile, which would only help.
func TestStock_H20_NobodyIsToldSoldOutWhileAUnitHasBeenFreeForHalfASecond(t *testing.T) { // S2-5
	v := realEnv(t)
	sale := v.spreadSale(t, []int64{2, 0, 0, 1, 0}, nil)
	o := &observer{client: v.client}
	for _, b := range v.buckets(sale.ID) {
		o.heads = append(o.heads, b.headKey())
	}
	st := &soldOutStorm{sale: sale, crowd: v.crowd(t), o: o, stop: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for !st.over() {
			st.fail(o.look(context.Background()))
		}
	})
	for i := range 12 {
		wg.Go(func() { st.buyer(i) })
	}
	end := time.NewTimer(4 * time.Second)
	<-end.C
	close(st.stop)
	wg.Wait()
	for _, s := range st.crowd.stores {
		s.background.Wait()
	}
	t.Logf("told sold out %d times, %d times by the mark; won %d, returned %d; looks %d; longest %v",
		st.told.Load(), st.marked.Load(), st.won.Load(), st.returned.Load(), o.looks.Load(), time.Duration(st.longest.Load()))
	if err := st.err.Load(); err != nil {
		t.Fatal(*err)
	}
	if st.marked.Load() == 0 || st.told.Load() == st.marked.Load() || st.returned.Load() < 3 {
		t.Fatal("nothing was tried")
	}
	checkBooks(t, v.store, sale.ID)
}

type soldOutStorm struct {
	sale  Sale
	crowd *crowd
	o     *observer
	stop  chan struct{}
	err   atomic.Pointer[string]

	told, marked, won, returned, longest atomic.Int64
}

func (st *soldOutStorm) over() bool {
	select {
	case <-st.stop:
		return true
	default:
		return st.err.Load() != nil
	}
}

func (st *soldOutStorm) fail(err error) {
	if err != nil {
		text := err.Error()
		st.err.CompareAndSwap(nil, &text)
	}
}

// buyer asks the mark, then Redis; what he wins he pays, and mostly returns
// after a while, by another replica.
func (st *soldOutStorm) buyer(i int) {
	ctx := context.Background()
	pause := time.NewTicker(time.Duration(3+i) * time.Millisecond)
	defer pause.Stop()
	for n := 0; !st.over(); n++ {
		<-pause.C
		s := st.crowd.stores[(i+n)%3]
		asked := time.Now()
		if view, _ := s.View(st.sale.ID); view.SoldOut {
			st.marked.Add(1)
			st.hear(asked, "by the mark")
			continue
		}
		o := order(st.sale, fmt.Sprint("u", i, "-", n), 1)
		res, err := s.Reserve(ctx, o)
		switch {
		case err != nil:
			st.fail(err)
		case res.Code == NotEnough && res.Available == 0:
			st.hear(asked, "by Reserve")
		case res.Granted:
			st.won.Add(1)
			st.use(st.crowd.stores[(i+n+1)%3], o)
		}
	}
}

func (st *soldOutStorm) hear(asked time.Time, how string) {
	st.told.Add(1)
	d, lied := st.o.lied(asked)
	for old := st.longest.Load(); int64(d) > old && !st.longest.CompareAndSwap(old, int64(d)); old = st.longest.Load() {
	}
	if lied {
		st.fail(fmt.Errorf("sold out, %s, while a unit had been free for %v", how, d))
	}
}

// use pays for a unit and returns it later, so that all is sold out between.
func (st *soldOutStorm) use(s *Store, o Order) {
	ctx := context.Background()
	_, err := s.Confirm(ctx, st.sale.ID, o.ID, 1, "S")
	st.fail(err)
	kept := time.NewTimer(time.Duration(300+rand.IntN(900)) * time.Millisecond)
	defer kept.Stop()
	select {
	case <-kept.C:
	case <-st.stop:
		return
	}
	_, err = s.Release(ctx, st.sale.ID, o.ID, 0)
	st.fail(err)
	st.returned.Add(1)
}

// TestSoldOut_NoMarkOutlivesAReturnedUnit: three replicas that were told sold
// out up to the last moment, one of which never reads again.
func TestStock_H20_NoMarkOutlivesAReturnedUnit(t *testing.T) { // T-21
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{1, 0, 0}, nil)
		o := order(sale, homeUser(sale.ID, 3, 0, 0), 1)
		v.reserve(t, o, TakenLast)
		_, err := v.store.Confirm(t.Context(), sale.ID, o.ID, 1, "S-1")
		must(t, err)
		c := v.crowd(t)
		for _, s := range c.stores { // each decides by itself
			res, err := s.Reserve(t.Context(), order(sale, homeUser(sale.ID, 3, 2, 0), 1))
			must(t, err)
			if view, _ := s.View(sale.ID); res.Code != NotEnough || !view.SoldOut {
				t.Fatalf("%+v %+v", res, view)
			}
		}
		_, err = v.store.Release(t.Context(), sale.ID, o.ID, 0)
		must(t, err)
		returned := time.Now()
		must(t, c.stores[0].Refresh(t.Context()))
		if view, _ := c.stores[0].View(sale.ID); view.SoldOut {
			t.Fatal("a reading that shows a free unit left the mark")
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for left := 3; left > 0; <-tick.C {
			left = 0
			for i, s := range c.stores {
				asked := time.Since(returned)
				if view, _ := s.View(sale.ID); view.SoldOut {
					left++
					if asked > soonest {
						t.Fatalf("replica %d: still marked %v after the unit came back", i, asked)
					}
				}
			}
		}
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 1, 0), 1), TakenLast)
	})
}
