package limiter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// grants is Redis as a lease sees it, with the clock of its bubble.
type grants struct {
	mu    sync.Mutex
	paid  map[string]time.Time
	calls int
	fault error // nil: it answers
	done  bool  // what is asked is done, be it answered or not
	way   time.Duration
}

func newGrants() *grants { return &grants{paid: map[string]time.Time{}, done: true} }

func (g *grants) ask(_ context.Context, layer, key string, q grantAsk) (int, time.Duration, error) {
	time.Sleep(g.way)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.fault != nil && !g.done {
		return 0, 0, g.fault
	}
	now := time.Now()
	one := time.Duration(float64(time.Second) / float64(q.pol.limit))
	full := time.Duration(q.pol.saved() * float64(one))
	paid := g.paid[layer+"/"+key]
	if most := now.Add(2 * full); paid.After(most) {
		paid = most
	}
	if spent := now.Add(-q.ago); q.back < 0 && paid.Before(spent) {
		paid = spent
	}
	if paid = paid.Add(-time.Duration(q.back) * one); paid.Before(now) {
		paid = now
	}
	granted := max(min(q.n, int((full-paid.Sub(now))/one)), 0)
	paid = paid.Add(time.Duration(granted) * one)
	g.paid[layer+"/"+key] = paid
	wait := time.Duration(0)
	if granted < q.n {
		wait = max(paid.Sub(now)+one-full, time.Microsecond)
	}
	return granted, wait, g.fault
}

func (g *grants) fail(err error, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault, g.done = err, done
}

func (g *grants) called() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// replicas are n Stacks with one cluster-wide layer.
func (g *grants) replicas(t testing.TB, n int, l Layer) []*Stack {
	t.Helper()
	l.Name, l.Scope = "upstream", ScopeCluster
	var all []*Stack
	for range n {
		s, err := NewShared([]Layer{l}, time.Now, &Cluster{
			grant: g.ask, Replicas: func() int { return n }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// offer has someone ask the Stack so often a second, evenly, for a while; each
// waits up to 100 ms. It gives the times at which he was allowed.
func offer(s *Stack, perSecond float64, long time.Duration) *[]time.Time {
	var mu sync.Mutex
	var all sync.WaitGroup
	var at []time.Time
	every := time.Duration(float64(time.Second) / perSecond)
	for range int(long / every) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if d := s.TakeWithin(ctx, Keys{"one"}); d.OK {
				mu.Lock()
				at = append(at, time.Now())
				mu.Unlock()
			}
		})
		time.Sleep(every)
	}
	all.Wait()
	return &at
}

// offered has each Stack be asked at its own rate, side by side.
func offered(stacks []*Stack, long time.Duration, perSecond ...float64) (all []time.Time, each []int) {
	got := make([]*[]time.Time, len(stacks))
	var wg sync.WaitGroup
	for i, s := range stacks {
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(int(leaseLife)))) // replicas have no common beat
			got[i] = offer(s, perSecond[i], long)
		})
	}
	wg.Wait()
	for i, s := range stacks {
		s.Close()
		all = append(all, *got[i]...)
		each = append(each, len(*got[i]))
	}
	slices.SortFunc(all, time.Time.Compare)
	return all, each
}

// bounded: at most burst + rate × (t + 100 ms), in any stretch.
func bounded(t *testing.T, at []time.Time, l Layer) {
	t.Helper()
	for i := range at {
		for j := i; j < len(at); j++ {
			most := float64(l.Burst) + l.Rate*(at[j].Sub(at[i])+100*time.Millisecond).Seconds() + 1e-6
			if n := float64(j - i + 1); n > most {
				t.Fatalf("%v in %v, at most %.1f", n, at[j].Sub(at[i]), most)
			}
		}
	}
}

func TestLimits_B73_ThreeReplicasShareOneRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Layer{Rate: 300, Burst: 30}
		at, each := offered(newGrants().replicas(t, 3, l), 5*time.Second, 500, 500, 500)
		bounded(t, at, l)
		if len(at) < 1450 {
			t.Errorf("%d in 5 s at 300/s, %v: the limit is not used", len(at), each)
		}
		for _, n := range each {
			if n < 250 {
				t.Errorf("one of them got next to nothing: %v", each)
			}
		}
	})
}

func TestALeaseFollowsTheDemandOfItsReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Layer{Rate: 300, Burst: 30}
		at, each := offered(newGrants().replicas(t, 3, l), 5*time.Second, 900, 20, 0.5)
		bounded(t, at, l)
		if len(at) < 1450 || each[1] < 60 {
			t.Errorf("%d in all, %v: the second offered 100", len(at), each)
		}
	})
}

func TestACrowdThatKeepsToTheLimitGetsAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Layer{Rate: 300, Burst: 30}
		at, each := offered(newGrants().replicas(t, 3, l), 5*time.Second, 96, 96, 96)
		if len(at) < 1440-5 {
			t.Errorf("%d of 1440, %v", len(at), each)
		}
	})
}

func TestALimitSmallerThanTheNumberOfReplicasWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Layer{Rate: 1, Burst: 1}
		at, each := offered(newGrants().replicas(t, 3, l), time.Minute, 10, 10, 10)
		bounded(t, at, l)
		if len(at) < 58 || len(at) > 62 {
			t.Errorf("%d in a minute at 1/s, %v", len(at), each)
		}
	})
}

func TestAFloodCostsTwentyScriptsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		s := g.replicas(t, 1, Layer{Rate: 10_000, Burst: 100})[0]
		allowed := 0
		for range 100 { // 100 k/s for a second
			for range 1000 {
				if d := s.Take(Keys{"one"}); d.OK {
					allowed++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.Close()
		if n := g.called(); n > int(leaseCalls)+leaseCallsBurst {
			t.Errorf("%d scripts", n)
		}
		if allowed < 9000 || allowed > 11_100 {
			t.Errorf("%d allowed of 10000", allowed)
		}
	})
}

func TestWhatIsNotSpentGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		all := g.replicas(t, 2, Layer{Rate: 0.001, Burst: 100}) // a budget for the whole test
		a := all[0]
		for range 10 { // a learns that it needs some 20 in a life
			for range 2 {
				a.TakeWithin(t.Context(), Keys{"one"})
			}
			time.Sleep(leaseLife)
		}
		got := 20
		for range 200 {
			if d := all[1].TakeWithin(t.Context(), Keys{"one"}); d.OK {
				got++
			}
			if d := a.TakeWithin(t.Context(), Keys{"one"}); d.OK {
				got++
			}
			time.Sleep(leaseLife)
		}
		if got != 100 {
			t.Errorf("%d of 100", got)
		}
	})
}

func TestWithRedisAwayEachReplicaGrantsItsPart(t *testing.T) {
	for name, done := range map[string]bool{"failed": false, "failed but applied": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGrants()
				l := Layer{Rate: 300, Burst: 30}
				all := g.replicas(t, 3, l)
				g.fail(errors.New("away"), done)
				at, each := offered(all, 5*time.Second, 500, 500, 500)
				bounded(t, at, l)
				if len(at) < 1450 {
					t.Errorf("%d in 5 s, %v", len(at), each)
				}
				for _, s := range all {
					if st := s.Stats()[0]; st.Away != 1 {
						t.Errorf("it does not say so: %+v", st)
					}
				}
				g.fail(nil, true)
				offered(all, time.Second, 500, 500, 500) // the second in which they come back
				at, each = offered(all, 3*time.Second, 900, 20, 0.5)
				bounded(t, at, l)
				if each[0] < 750 {
					t.Errorf("the first still keeps to a third: %v", each)
				}
				for _, s := range all[:2] {
					if st := s.Stats()[0]; st.Away != 0 {
						t.Errorf("it is back: %+v", st)
					}
				}
			})
		})
	}
}

func TestACallerWaitsNoLongerThanHisContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		g.way = 150 * time.Millisecond
		s := g.replicas(t, 1, Layer{Rate: 100, Burst: 10})[0]
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		began := time.Now()
		d := s.TakeWithin(ctx, Keys{"one"})
		if waited := time.Since(began); d.OK || d.Layer != "upstream" || d.RetryAfter <= 0 || waited != 40*time.Millisecond {
			t.Errorf("%+v after %v", d, waited)
		}
		s.Close()
		if d := s.Take(Keys{"one"}); !d.OK {
			t.Errorf("the grant has come: %+v", d)
		}
	})
}

func TestAShadowLeaseRefusesAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		g.way = 100 * time.Millisecond
		s := g.replicas(t, 1, Layer{Rate: 1, Burst: 1, Shadow: true})[0]
		began := time.Now()
		for range 50 {
			if d := s.TakeWithin(t.Context(), Keys{"one"}); !d.OK {
				t.Fatalf("%+v", d)
			}
		}
		if time.Since(began) != 0 {
			t.Error("it was waited for")
		}
		s.Close()
		s.Take(Keys{"one"})
		s.Take(Keys{"one"})
		s.Close()
		if st := s.Stats()[0]; st.Shadowed == 0 || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAChangedClusterRateActsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		slow := Layer{Name: "upstream", Scope: ScopeCluster, Rate: 10, Burst: 1}
		s := g.replicas(t, 1, slow)[0]
		at, _ := offered([]*Stack{s}, 2*time.Second, 100)
		if len(at) > 23 {
			t.Fatalf("%d in 2 s at 10/s", len(at))
		}
		fast := slow
		fast.Rate, fast.Burst = 50, 5
		if err := s.Update([]Layer{fast}); err != nil {
			t.Fatal(err)
		}
		at, _ = offered([]*Stack{s}, 2*time.Second, 100)
		bounded(t, at, fast)
		if len(at) < 95 {
			t.Errorf("%d in 2 s at 50/s", len(at))
		}
		if err := s.Update([]Layer{slow}); err != nil {
			t.Fatal(err)
		}
		at, _ = offered([]*Stack{s}, 2*time.Second, 100)
		bounded(t, at, slow)
	})
}

func TestAClusterScopeNeedsARedis(t *testing.T) {
	if _, err := New([]Layer{{Name: "x", Rate: 1, Burst: 1, Scope: ScopeCluster}}, time.Now); err == nil {
		t.Error("no fault")
	}
	if _, err := New([]Layer{{Name: "x", Rate: 1, Burst: 1, Scope: "galaxy"}}, time.Now); err == nil {
		t.Error("no fault")
	}
}

func TestALeaseThatIsKnownCostsNoAllocation(t *testing.T) {
	for name, rate := range map[string]float64{"allowed": 1e9, "refused": 1e-3} {
		g := newGrants()
		s := g.replicas(t, 1, Layer{Rate: rate, Burst: 1 << 20})[0]
		if rate < 1 {
			s = g.replicas(t, 1, Layer{Rate: rate, Burst: 1})[0]
		}
		keys := Keys{"one"}
		s.TakeWithin(t.Context(), keys)
		s.TakeWithin(t.Context(), keys)
		for _, sh := range s.layers[0].shards { // as long as the measurement takes
			for _, e := range sh.keys.Values() {
				e.lease.left, e.lease.until = 1<<20*int(min(rate, 1)), time.Now().Add(time.Hour)
			}
		}
		if n := testing.AllocsPerRun(1000, func() {
			d, _ := s.TakeAtOnce(keys)
			d.Done()
		}); n != 0 {
			t.Errorf("%s: %v", name, n)
		}
	}
}
