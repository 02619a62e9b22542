package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// eachRedis runs the test on miniredis and on a real redis-server.
func eachRedis(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("memory", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		t.Cleanup(func() { rdb.Close() })
		test(t, rdb)
	})
	t.Run("real", func(t *testing.T) { test(t, redistest.Single(t).Client(t)) })
}

func clusterOf(rdb redis.UniversalClient) *Cluster {
	return &Cluster{Redis: rdb, Replicas: func() int { return 3 }, Log: slog.New(slog.DiscardHandler)}
}

func sharedStack(t testing.TB, rdb redis.UniversalClient, layers ...Layer) *Stack {
	t.Helper()
	for i := range layers {
		layers[i].Scope = ScopeCluster
	}
	s, err := NewShared(layers, time.Now, clusterOf(rdb))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestLimits_B45_AThousandCallersOnThreeReplicasGetExactlyTheBurst(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		l := Layer{Name: "upstream", Rate: 1, Period: time.Hour, Burst: 10}
		stacks := []*Stack{sharedStack(t, rdb, l), sharedStack(t, rdb, l), sharedStack(t, rdb, l)}
		var got atomic.Int32
		var all sync.WaitGroup
		barrier := make(chan struct{})
		for i := range 1000 {
			all.Go(func() {
				<-barrier
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if d := stacks[i%3].TakeWithin(ctx, Keys{"one"}); d.OK {
					got.Add(1)
				}
			})
		}
		close(barrier)
		all.Wait()
		// What one was granted and did not spend comes back with its next script.
		deadline := time.Now().Add(10 * time.Second)
		for i := 0; got.Load() < 10 && time.Now().Before(deadline); i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if d := stacks[i%3].TakeWithin(ctx, Keys{"one"}); d.OK {
				got.Add(1)
			} else {
				forgetAll(stacks[i%3])
			}
			cancel()
		}
		if got.Load() != 10 {
			t.Errorf("%d of a burst of 10", got.Load())
		}
	})
}

// granted asks Redis itself.
func granted(t *testing.T, c *Cluster, l Layer, key string, n, back int) (int, time.Duration) {
	t.Helper()
	l.Period = max(l.Period, time.Second)
	got, wait, err := c.ask(t.Context(), l.Name, key, grantAsk{n: n, back: back, pol: newPolicy(l)})
	if err != nil {
		t.Fatal(err)
	}
	return got, wait
}

func TestGrant_GivesWhatIsThereAndTellsWhenThereIsMore(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := clusterOf(rdb)
		l := Layer{Name: "upstream", Rate: 1, Period: 1000 * time.Second, Burst: 10}
		for _, step := range []struct{ n, back, got int }{{4, 0, 4}, {100, 0, 6}, {1, 0, 0}, {5, 3, 3}, {1, 0, 0}, {2, 1, 1}, {1, -2, 0}, {9, 3, 1}} {
			got, wait := granted(t, c, l, "one", step.n, step.back)
			if got != step.got || (got < step.n) != (wait > 0) || wait > 3001*time.Second {
				t.Errorf("%+v: %d, %v", step, got, wait)
			}
		}
		if got, _ := granted(t, c, l, "one", 100, 1000); got != 10 {
			t.Errorf("after more came back than ever went: %d", got)
		}
	})
}

func TestGrant_WhatWasSpentUnaskedIsPaidForFromItsTimeOn(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := clusterOf(rdb)
		l := Layer{Name: "upstream", Rate: 1, Period: 1000 * time.Second, Burst: 10}
		for ago, want := range map[time.Duration]int{0: 9, 500 * time.Second: 9, 1001 * time.Second: 10} {
			pol := newPolicy(l)
			got, _, err := c.ask(t.Context(), "upstream", fmt.Sprint(ago), grantAsk{n: 99, back: -1, ago: ago, pol: pol})
			if err != nil || got != want {
				t.Errorf("%v ago: %d left, want %d, %v", ago, got, want, err)
			}
		}
	})
}

// trips counts what goes to Redis.
type trips struct {
	redis.Hook
	commands, pipelines atomic.Int64
}

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.commands.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pipelines.Add(1)
		return next(ctx, cmds)
	}
}

func TestManyUsersWhoPressTwiceTravelTogether(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		h := &trips{}
		rdb.AddHook(h)
		s := sharedStack(t, rdb, Layer{Name: "user", Rate: 2, Burst: 2, Quiet: 10 * time.Second})
		press := func() (ok int64) {
			var got atomic.Int64
			var all sync.WaitGroup
			start := make(chan struct{})
			for i := range 1000 {
				all.Go(func() {
					<-start
					if d := s.TakeWithin(t.Context(), Keys{fmt.Sprint("user", i)}); d.OK {
						got.Add(1)
					}
				})
			}
			close(start)
			all.Wait()
			return got.Load()
		}
		if first := press(); first != 1000 || h.pipelines.Load()+h.commands.Load() != 0 {
			t.Errorf("%d of 1000 first presses, %d trips", first, h.pipelines.Load())
		}
		if second := press(); second != 1000 || h.pipelines.Load() > 250 || h.commands.Load() != 0 {
			t.Errorf("%d of 1000 second presses, %d pipelines, %d commands", second, h.pipelines.Load(), h.commands.Load())
		}
	})
}

func TestAScriptThatIsForgottenIsSentAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := clusterOf(rdb)
		l := Layer{Name: "upstream", Rate: 1e-3, Burst: 5}
		granted(t, c, l, "one", 2, 0)
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if got, _ := granted(t, c, l, "one", 9, 0); got != 3 {
			t.Errorf("%d of the 3 that were left", got)
		}
	})
}

func TestARateHoldsOnAClusterToo(t *testing.T) {
	rdb := redistest.Cluster(t, 3, 0).Client(t, nil)
	s := sharedStack(t, rdb, Layer{Name: "item", Rate: 1e-3, Burst: 3})
	for i := range 12 { // on several masters
		got := 0
		for range 9 {
			if d := s.TakeWithin(t.Context(), Keys{fmt.Sprint("item", i)}); d.OK {
				got++
			}
		}
		if got != 3 {
			t.Errorf("item%d: %d of 3", i, got)
		}
	}
}

func TestLimits_B55_AGrantLeavesNoKeyWithoutAnEnd(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := clusterOf(rdb)
		l := Layer{Name: "upstream", Rate: 10, Burst: 100}
		granted(t, c, l, "one", 100, 0)
		keys, err := rdb.Keys(t.Context(), "weir:*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		if ttl := rdb.PTTL(t.Context(), keys[0]).Val(); ttl < 9*time.Second || ttl > 12*time.Second {
			t.Errorf("it ends in %v", ttl)
		}
		// One without an end is repaired by the next script.
		if err := rdb.Persist(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
		granted(t, c, l, "one", 1, 0)
		if ttl := rdb.PTTL(t.Context(), keys[0]).Val(); ttl <= 0 {
			t.Errorf("it never ends: %v", ttl)
		}
		granted(t, c, l, "one", 0, 1000)
		if n := rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("what is full again needs no key: %d", n)
		}
	})
}

func TestLimits_B52_ARedisWhoseClockWasSetBackNeitherFreezesNorGives(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := clusterOf(rdb)
		l := Layer{Name: "upstream", Rate: 10, Burst: 5}
		granted(t, c, l, "one", 6, 0)
		key := grantKey("upstream", "one")
		ahead := time.Now().Add(time.Hour).UnixMicro()
		if err := rdb.Set(t.Context(), key, fmt.Sprint(ahead), time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if got, wait := granted(t, c, l, "one", 5, 0); got != 0 || wait > 1200*time.Millisecond {
			t.Errorf("%d, the next in %v", got, wait)
		}
	})
}

func TestLimits_B56_TwoLayersWithOneKeyAreIndependent(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		s := sharedStack(t, rdb, Layer{Name: "a", Rate: 1e-3, Burst: 3}, Layer{Name: "a:b", Rate: 1e-3, Burst: 3})
		count := func(keys ...string) (n int) {
			for range 9 {
				if d := s.TakeWithin(t.Context(), keys); d.OK {
					n++
				}
			}
			return n
		}
		if a, b := count("b:c", ""), count("", "c"); a != 3 || b != 3 {
			t.Errorf("%d and %d of 3 and 3", a, b)
		}
	})
}

func TestARefusalByOneLayerSpendsNoGrantOfAnother(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		s := sharedStack(t, rdb, Layer{Name: "item", Rate: 1e-3, Burst: 1}, Layer{Name: "upstream", Rate: 1e-3, Burst: 50})
		got := 0
		for i := range 100 { // two each of fifty items
			if d := s.TakeWithin(t.Context(), Keys{fmt.Sprint("item", i/2), "all"}); d.OK {
				got++
			} else if d.Layer == "upstream" && got < 50 {
				forgetAll(s)
			}
		}
		if got < 45 {
			t.Errorf("%d of 50: refused ones have spent of the other layer", got)
		}
	})
}

// forgetAll opens the leases again, as if the time had come that they name.
func forgetAll(s *Stack) {
	for _, y := range s.layers {
		for _, sh := range y.shards {
			sh.mu.Lock()
			for _, e := range sh.keys.Values() {
				e.lease.closed = time.Time{}
			}
			sh.mu.Unlock()
		}
	}
}

func TestGrant_WhatCannotBeReadIsWrittenAnew(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		if err := rdb.Set(t.Context(), grantKey("upstream", "one"), "no time", 0).Err(); err != nil {
			t.Fatal(err)
		}
		l := Layer{Name: "upstream", Rate: 1e-3, Burst: 2}
		if got, _ := granted(t, clusterOf(rdb), l, "one", 9, 0); got != 2 {
			t.Errorf("%d of 2", got)
		}
		if got, _ := granted(t, clusterOf(rdb), l, "one", 9, 0); got != 0 {
			t.Errorf("%d more", got)
		}
	})
}
