package limiter_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/limiter"
)

// together releases n goroutines at one moment and counts those that say yes.
func together(n int, ask func(int) bool) int {
	var yes atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			if ask(i) {
				yes.Add(1)
			}
		})
	}
	close(gate)
	wg.Wait()
	return int(yes.Load())
}

func TestLimits_B45_AThousandReleasedTogetherGetTheBurst(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 10})
	got := together(1000, func(int) bool { d := s.Take(limiter.Keys{"u"}); return d.OK })
	want(t, "admitted", got, 10)
}

func TestLimits_B45_AThousandReleasedTogetherGetTheSlots(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "item", Concurrency: 10})
	var mu sync.Mutex
	var held []limiter.Decision
	got := together(1000, func(int) bool {
		d := s.Take(limiter.Keys{"i"})
		if d.OK {
			mu.Lock()
			held = append(held, d)
			mu.Unlock()
		}
		return d.OK
	})
	want(t, "admitted", got, 10)
	want(t, "in flight", s.Stats()[0].InFlight, 10)
	for i := range held {
		held[i].Done()
		held[i].Done() // harmless
	}
	want(t, "in flight after Done", s.Stats()[0].InFlight, 0)
	want(t, "admitted again", took(s, 20, "i"), 10)
}

func TestAMovingClockNeverGivesMoreThanBurstAndRate(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 100, Burst: 20}, limiter.Layer{Name: "all", Rate: 1000, Burst: 1000})
	got := together(1000, func(i int) bool {
		c.add(time.Millisecond)
		d := s.Take(limiter.Keys{"u", "all"})
		return d.OK
	})
	// 1000 ms go by: the user may have 20 + 100, less what fell on a full bucket.
	if got > 120 || got < 20 {
		t.Errorf("admitted %d, want 20 to 120", got)
	}
}

func TestARefusedRequestHasSpentNothingAnywhere(t *testing.T) {
	s := stack(t, newClock().now,
		limiter.Layer{Name: "user", Rate: 1, Burst: 5},
		limiter.Layer{Name: "device", Concurrency: 5},
		limiter.Layer{Name: "addr", Rate: 1, Burst: 2},
	)
	want(t, "with a tight address", took(s, 50, "u", "d", "a"), 2)
	want(t, "the user's rest", took(s, 50, "u", "", ""), 3)
	want(t, "the device's rest", took(s, 50, "", "d", ""), 3)
	d := s.Take(limiter.Keys{"other", "other", "a"})
	want(t, "refused by", d.Layer, "addr")
	want(t, "keys remembered for a refused newcomer", s.Stats()[0].Keys, 1)
}

func TestLimits_B70_OneLoudUserLeavesTheOthersTheCluster(t *testing.T) {
	s := stack(t, newClock().now,
		limiter.Layer{Name: "user", Rate: 1, Burst: 1},
		limiter.Layer{Name: "cluster", Rate: 100, Burst: 100},
	)
	want(t, "the loud one", took(s, 1000, "loud", "all"), 1)
	others := 0
	for i := range 200 {
		others += took(s, 1, fmt.Sprint("u", i), "all")
	}
	want(t, "others", others, 99)
}

func TestLimits_B56_TwoLayersWithTheSameKeyAreIndependent(t *testing.T) {
	s := stack(t, newClock().now,
		limiter.Layer{Name: "a", Rate: 1, Burst: 1}, limiter.Layer{Name: "b", Rate: 1, Burst: 3})
	want(t, "a", took(s, 9, "x", ""), 1)
	want(t, "b", took(s, 9, "", "x"), 3)
}

func TestARefusedCallerWhoKeepsAskingStillGetsHisRate(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 2, Burst: 2})
	got := 0
	for range 10_000 { // 10 s in steps of 1 ms
		c.add(time.Millisecond)
		got += took(s, 1, "u")
	}
	if got < 21 || got > 22 {
		t.Errorf("got %d in 10 s at 2/s with burst 2, want 21 or 22", got)
	}
}

func TestRetryAfterIsTheMomentOfTheNextToken(t *testing.T) {
	for _, l := range []limiter.Layer{
		{Rate: 2, Burst: 1},
		{Rate: 3, Burst: 2},
		{Rate: 100_000, Burst: 7},
		{Rate: 1, Burst: 1, Period: 30 * 24 * time.Hour},
		{Rate: 7, Burst: 3, Period: time.Minute},
	} {
		c := newClock()
		l.Name = "x"
		s := stack(t, c.now, l)
		took(s, l.Burst, "k")
		d := s.Take(limiter.Keys{"k"})
		each := time.Duration(float64(max(l.Period, time.Second)) / l.Rate)
		if d.OK || d.RetryAfter < each-time.Microsecond || d.RetryAfter > each+time.Microsecond {
			t.Errorf("%+v: %+v, want RetryAfter about %v", l, d, each)
		}
		c.add(d.RetryAfter - 10)
		want(t, fmt.Sprint(l, " just before"), took(s, 1, "k"), 0)
		c.add(10)
		want(t, fmt.Sprint(l, " then"), took(s, 1, "k"), 1)
	}
}

func TestALayerWithoutAKeyDoesNotApply(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 1})
	want(t, "without a key", took(s, 50, ""), 50)
	want(t, "allowed by the layer", s.Stats()[0].Allowed, uint64(0))
}

func TestOffIsNotAskedAndShadowOnlyCounts(t *testing.T) {
	s := stack(t, newClock().now,
		limiter.Layer{Name: "off", Rate: 1, Burst: 1, Off: true},
		limiter.Layer{Name: "shadow", Rate: 1, Burst: 3, Shadow: true},
		limiter.Layer{Name: "real", Rate: 1, Burst: 5},
	)
	want(t, "admitted", took(s, 10, "k", "k", "k"), 5)
	st := s.Stats()
	want(t, "off", st[0].Allowed+st[0].Refused+st[0].Shadowed, 0)
	want(t, "shadow would refuse", st[1].Shadowed, 7)
	want(t, "shadow refused", st[1].Refused, 0)
	want(t, "shadow allowed", st[1].Allowed, 3)
	want(t, "real refused", st[2].Refused, 5)
	want(t, "real allowed", st[2].Allowed, 5)
}

func TestDoneOfARefusedOrSlotlessDecisionDoesNothing(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "item", Concurrency: 1})
	first := s.Take(limiter.Keys{"i"})
	refused := s.Take(limiter.Keys{"i"})
	want(t, "refused", refused.OK, false)
	want(t, "told to wait", refused.RetryAfter, time.Second)
	refused.Done()
	var none limiter.Decision
	none.Done()
	want(t, "still full", took(s, 1, "i"), 0)
	first.Done()
	want(t, "free", took(s, 1, "i"), 1)
}

func TestTheWrongNumberOfKeysPanics(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 1})
	defer func() {
		if recover() == nil {
			t.Error("no panic: a forgotten key would be a limit that never fires")
		}
	}()
	s.Take(limiter.Keys{})
}
