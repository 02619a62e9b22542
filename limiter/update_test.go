package limiter_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/limiter"
)

func TestUpdateKeepsWhatIsSpent(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 1, Burst: 4}, limiter.Layer{Name: "item", Concurrency: 1})
	d := s.Take(limiter.Keys{"u", "i"})
	took(s, 9, "u", "")
	c.add(time.Second)
	must(t, s.Update([]limiter.Layer{{Name: "user", Rate: 10, Burst: 20}, {Name: "item", Concurrency: 2}}))
	want(t, "at once: only the second before at the old rate", took(s, 99, "u", ""), 1)
	c.add(time.Second)
	want(t, "a second at the new rate", took(s, 99, "u", ""), 10)
	want(t, "slots beside the held one", took(s, 9, "", "i"), 1)
	d.Done()
	want(t, "after Done", took(s, 9, "", "i"), 1)
	p, ok := s.Policy("user")
	want(t, "policy", fmt.Sprint(ok, p.Rate, p.Burst, p.Period, p.Size), "true 10 20 1s 65536")
	_, ok = s.Policy("nobody")
	want(t, "no such policy", ok, false)
}

func TestUpdateCountsTheOldRateOnlyUntilItHappened(t *testing.T) {
	c := newClock()
	l := limiter.Layer{Name: "user", Rate: 100, Burst: 1000}
	s := stack(t, c.now, l)
	took(s, 1000, "u")
	for range 3 { // 1 s at 100/s, 1 s at 1/s, 1 s at 100/s
		l.Rate = 101 - l.Rate
		c.add(time.Second)
		must(t, s.Update([]limiter.Layer{l}))
	}
	want(t, "tokens of three rates", took(s, 1000, "u"), 201)
}

func TestASmallerBurstCapsWhatIsThere(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 100})
	took(s, 1, "u")
	must(t, s.Update([]limiter.Layer{{Name: "user", Rate: 1, Burst: 3}}))
	want(t, "left", took(s, 99, "u"), 3)
}

func TestRateMayComeAndGo(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 1})
	want(t, "with rate", took(s, 9, "u"), 1)
	must(t, s.Update([]limiter.Layer{{Name: "user", Concurrency: 50}}))
	want(t, "without", took(s, 60, "u"), 50)
	must(t, s.Update([]limiter.Layer{{Name: "user", Rate: 1, Burst: 2}}))
	want(t, "with rate again", took(s, 9, "u"), 2)
}

func TestASmallerSizeShrinksAsKeysRefill(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 1, Burst: 1, Size: 100})
	for i := range 100 {
		took(s, 1, fmt.Sprint(i))
	}
	must(t, s.Update([]limiter.Layer{{Name: "user", Rate: 1, Burst: 1, Size: 10}}))
	want(t, "nobody forgotten yet", took(s, 1, "5"), 0)
	c.add(2 * time.Second)
	for i := range 20 {
		took(s, 1, fmt.Sprint("new", i))
	}
	if k := s.Stats()[0].Keys; k > 10 {
		t.Errorf("%d keys, at most 10", k)
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "a", Rate: 1, Burst: 1}, limiter.Layer{Name: "b", Rate: 1, Burst: 1})
	for _, bad := range [][]limiter.Layer{
		{{Name: "a", Rate: 9, Burst: 9}},
		{{Name: "b", Rate: 9, Burst: 9}, {Name: "a", Rate: 9, Burst: 9}},
		{{Name: "a", Rate: 9, Burst: 9}, {Name: "b", Rate: -1, Burst: 9}},
	} {
		if err := s.Update(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
		p, _ := s.Policy("a")
		want(t, "a's rate", p.Rate, 1.0)
	}
	want(t, "a's budget", took(s, 9, "k", ""), 1)
}

func TestUpdateWhileOthersTake(t *testing.T) {
	c := newClock()
	layers := func(n int) []limiter.Layer {
		return []limiter.Layer{{Name: "user", Rate: float64(n), Burst: n}, {Name: "item", Concurrency: n}}
	}
	s := stack(t, c.now, layers(1)...)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				d := s.Take(limiter.Keys{fmt.Sprint(g, i%50), "item"})
				c.add(time.Millisecond)
				d.Done()
			}
		})
	}
	wg.Go(func() {
		for n := range 50 {
			if err := s.Update(layers(n + 1)); err != nil {
				t.Error(err)
			}
			s.Stats()
		}
	})
	wg.Wait()
	want(t, "in flight", s.Stats()[1].InFlight, 0)
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := limiter.New([]limiter.Layer{
		{Name: "", Rate: 1, Burst: 1},
		{Name: "nothing"},
		{Name: "nan", Rate: math.NaN(), Burst: 1},
		{Name: "inf", Rate: math.Inf(1), Burst: 1},
		{Name: "neg", Rate: -1, Burst: 1},
		{Name: "noburst", Rate: 1},
		{Name: "slots", Concurrency: -1, Rate: 1, Burst: 1},
		{Name: "period", Rate: 1, Burst: 1, Period: -time.Second},
		{Name: "slow", Rate: 1e-12, Burst: 1},
		{Name: "size", Rate: 1, Burst: 1, Size: -5},
		{Name: "twice", Rate: 1, Burst: 1},
		{Name: "twice", Rate: 1, Burst: 1},
	}, newClock().now)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		`layer 1: name`, `"nothing": rate`, `"nan": rate`, `"inf": rate`, `"neg": rate`, `"noburst": burst`,
		`"slots": concurrency`, `"period": period`, `"slow": rate`, `"size": size`, `"twice": name`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
	if _, err := limiter.New(nil, nil); err == nil {
		t.Error("no clock, no error")
	}
	many := make([]limiter.Layer, 20)
	for i := range many {
		many[i] = limiter.Layer{Name: fmt.Sprint(i), Concurrency: 1}
	}
	_, err = limiter.New(many, newClock().now)
	if err == nil || !strings.Contains(err.Error(), "at most 16") || !strings.Contains(err.Error(), "at most 8") {
		t.Errorf("20 layers with concurrency: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
