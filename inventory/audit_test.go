package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// restless has something happen before each step of a walk.
type restless struct {
	redis.Hook
	before func(n int)
	n      int
}

func (r *restless) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *restless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *restless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hscan" {
			r.n++
			r.before(r.n)
		}
		return next(ctx, cmd)
	}
}

// auditor is a replica before whose every step something happens.
func (v *env) auditor(t *testing.T, before func(n int)) (*Store, *restless) {
	s, r := v.replicaOf(t, "auditor", nil), &restless{before: before}
	must(t, s.Refresh(t.Context()))
	s.redis.AddHook(r)
	return s, r
}

// fill reserves n units for as many users, a flight at a time.
func (v *env) fill(t *testing.T, sale Sale, n int) {
	t.Helper()
	e, err := v.store.entry(t.Context(), sale.ID)
	must(t, err)
	for from := 0; from < n; from += maxBatch {
		byHome := map[*cell][]*passenger{}
		for i := from; i < min(from+maxBatch, n); i++ {
			o := order(sale, fmt.Sprint("u", i), 1)
			c := e.home(o.ID)
			byHome[c] = append(byHome[c], newPassenger(o))
		}
		for c, aboard := range byHome {
			v.store.flight(t.Context(), e, c, loan{}, aboard)
		}
	}
}

func TestAudit_ThatMeetsAChangeAtEveryStepProvesAllTheSame(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 3000, nil)
		v.fill(t, sale, 2000) // more than one slice
		s, busy := v.auditor(t, func(n int) {
			o := v.won(t, sale, fmt.Sprint("x", n))
			must(t, second(v.store.Confirm(t.Context(), sale.ID, o.ID, 1, "S")))
			if n%2 == 0 {
				must(t, second(v.store.Release(t.Context(), sale.ID, o.ID, 0)))
			}
		})
		a, err := s.Audit(t.Context(), sale.ID)
		if err != nil || !a.OK || !a.Proved || busy.n < 4 {
			t.Fatalf("%+v after %d steps: %v", a, busy.n, err)
		}
		if a.Level.Reserved != 2000 || a.Level.Confirmed == 0 {
			t.Errorf("after %d steps %+v", busy.n, a.Level)
		}
	})
}

// TestAudit_ProvesALargeSaleInAStorm: others buy, pay and give back as fast as they can.
func TestAudit_ProvesALargeSaleInAStorm(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 100_000, func(s *Sale) { s.Buckets, s.BuyerLimit = 3, 0 })
	v.fill(t, sale, 20_000)
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				o := order(sale, fmt.Sprint("x", w, "-", i), 1)
				_, err1 := v.store.Reserve(context.Background(), o)
				_, err2 := v.store.Confirm(context.Background(), sale.ID, o.ID, 0, "S")
				_, err3 := v.store.Release(context.Background(), sale.ID, o.ID, 0)
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	before, err := v.store.Level(t.Context(), sale.ID)
	must(t, err)
	for range 2 {
		if a, err := v.store.Audit(t.Context(), sale.ID); err != nil || !a.OK || !a.Proved {
			t.Errorf("%+v %v", a, err)
		}
	}
	must(t, v.client.HIncrBy(t.Context(), v.buckets(sale.ID)[1].headKey(), "confirmed", 1).Err())
	a, err := v.store.Audit(t.Context(), sale.ID)
	if err != nil || a.OK || !a.Proved || len(a.Differences) != 1 || !strings.HasPrefix(a.Differences[0], "bucket 1: confirmed: the counter says ") {
		t.Errorf("a unit that nobody bought: %+v %v", a, err)
	}
	if a.Level.Seq == before.Seq {
		t.Error("it was no storm")
	}
	close(stop)
	wg.Wait()
}

// TestAudit_SeesEachMomentRight: whatever happens between the steps of a walk,
// the books are those of the moment at its end.
func TestAudit_SeesEachMomentRight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := memoryEnv(t)
		sale := v.openSale(t, 40, func(s *Sale) { s.Buckets, s.BuyerLimit = 2, 3 })
		var orders []Order
		step := func(int) {
			for range rapid.IntRange(0, 3).Draw(rt, "acts") {
				orders = v.anything(rt, sale, orders)
			}
		}
		step(0)
		s, _ := v.auditor(t, step)
		a, err := s.Audit(t.Context(), sale.ID)
		if err != nil || !a.OK || !a.Proved {
			rt.Fatalf("%+v %v", a, err)
		}
	})
}

// anything does one thing to the sale.
func (v *env) anything(t *rapid.T, sale Sale, orders []Order) []Order {
	ctx := context.Background()
	what := rapid.IntRange(0, 5).Draw(t, "what")
	if what == 0 || len(orders) == 0 {
		o := order(sale, fmt.Sprint("u", rapid.IntRange(0, 4).Draw(t, "user")), 1)
		if _, err := v.store.Reserve(ctx, o); err != nil {
			t.Fatal(err)
		}
		return append(orders, o)
	}
	id := rapid.SampledFrom(orders).Draw(t, "order").ID
	var err error
	switch what {
	case 1:
		_, err = v.store.Confirm(ctx, sale.ID, id, 0, "S")
	case 2:
		_, err = v.store.Release(ctx, sale.ID, id, 0)
	case 3:
		_, err = v.store.Release(ctx, sale.ID, NewOrderID(sale.ID, "nobody"), 0)
	case 4:
		v.now = v.now.Add(sale.Hold / 2)
		v.mini.SetTime(v.now)
		_, err = v.store.Sweep(ctx, sale.ID)
	case 5:
		e, _ := v.store.entry(ctx, sale.ID)
		from := rapid.IntRange(0, 1).Draw(t, "from")
		l := loan{id: newLoanID(), units: 2, from: from}
		if l.units, err = v.store.lend(ctx, e, l, 1-from, false); err == nil && l.units > 0 {
			err = v.store.takeIn(ctx, e, e.cells[1-from], l)
		}
	}
	if err != nil && !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrUnknownReservation) {
		t.Fatal(err)
	}
	return orders
}

func TestAudit_WhoseChangesAreNotKeptProvesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, nil)
		s, busy := v.auditor(t, func(int) { must(t, v.client.HSet(t.Context(), v.bucket(sale.ID).headKey(), "audit", 0).Err()) })
		a, err := s.Audit(t.Context(), sale.ID)
		if err != nil || a.OK || a.Proved || len(a.Differences) != 1 || busy.n < auditTries {
			t.Errorf("%+v after %d steps: %v", a, busy.n, err)
		}
		if a, err = v.store.Audit(t.Context(), sale.ID); err != nil || !a.OK || !a.Proved {
			t.Errorf("then: %+v %v", a, err)
		}
	})
}

// TestAudit_OfARedisThatTakesNoWrites: nothing changes there, and a change all
// the same proves nothing.
func TestAudit_OfARedisThatTakesNoWrites(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 100, nil)
	v.fill(t, sale, 10)
	refuse := func(replicas int) {
		must(t, v.client.ConfigSet(t.Context(), "min-replicas-to-write", fmt.Sprint(replicas)).Err())
	}
	s, _ := v.auditor(t, func(n int) {
		refuse(0)
		v.won(t, sale, fmt.Sprint("x", n))
		refuse(1)
	})
	refuse(1)
	if a, err := v.store.Audit(t.Context(), sale.ID); err != nil || !a.OK || !a.Proved || a.Level.Reserved != 10 {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := s.Audit(t.Context(), sale.ID); err != nil || a.OK || a.Proved {
		t.Errorf("%+v %v", a, err)
	}
}

func TestAudit_ListensForAWhileAndLeavesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, nil)
		noted := func() int64 { return v.client.LLen(t.Context(), v.bucket(sale.ID).changesKey()).Val() - 1 }
		v.advance(t, sale.ID, time.Minute) // what was audited before is over
		must(t, second(v.store.Sweep(t.Context(), sale.ID)))
		v.fill(t, sale, 3)
		if noted() != 0 {
			t.Fatalf("%d changes noted for nobody", noted())
		}
		must(t, second(v.store.Audit(t.Context(), sale.ID)))
		v.fill(t, sale, 5)
		if noted() != 5 {
			t.Fatalf("%d changes noted, want 5", noted())
		}
		v.advance(t, sale.ID, 11*time.Second)
		v.fill(t, sale, 7)
		if noted() != 5 {
			t.Fatalf("%d changes noted after the listening", noted())
		}
		must(t, second(v.store.Sweep(t.Context(), sale.ID)))
		if noted() != 0 {
			t.Fatalf("%d changes are left", noted())
		}
		checkInvariant(t, v.store, sale.ID)
	})
}
