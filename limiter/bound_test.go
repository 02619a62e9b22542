package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/limiter"
)

func TestLimits_B60_AScanOfRandomKeysDoesNotResetARefusedKey(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 1, Burst: 2, Period: time.Hour, Size: 1000})
	want(t, "A's budget", took(s, 9, "A"), 2)
	for i := range 20_000 {
		s.Take(limiter.Keys{fmt.Sprint("scan", i)})
	}
	want(t, "A after the scan", took(s, 9, "A"), 0)
	st := s.Stats()[0]
	if st.Keys > 1000 || st.Overflowed == 0 || st.Evicted != 0 {
		t.Errorf("%+v: want at most 1000 keys, some overflowed, none evicted", st)
	}
	c.add(time.Hour)
	want(t, "A an hour later", took(s, 9, "A"), 1)
}

func TestWhatHasRefilledMakesRoom(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 1, Burst: 1, Size: 100})
	for round := range 5 {
		for i := range 100 {
			want(t, "a newcomer", took(s, 2, fmt.Sprint(round, "-", i)), 1)
		}
		c.add(time.Second)
	}
	st := s.Stats()[0]
	want(t, "keys", st.Keys, 100)
	want(t, "evicted", st.Evicted, 400)
	want(t, "overflowed", st.Overflowed, 0)
}

func TestAFloodOfNewKeysDoesNotStarveAnExistingOne(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 2, Burst: 2, Size: 500})
	want(t, "burst", took(s, 2, "buyer"), 2)
	got := 0
	for i := range 10_000 { // 10 s, 20 new keys each 10 ms
		if i%10 == 0 {
			for j := range 20 {
				s.Take(limiter.Keys{fmt.Sprint("flood", i, j)})
			}
		}
		c.add(time.Millisecond)
		got += took(s, 1, "buyer")
	}
	if got < 19 || got > 20 {
		t.Errorf("the buyer got %d in 10 s at 2/s, want 19 or 20", got)
	}
}

func TestAFloodLeavesNewcomersAShare(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 2, Burst: 2, Size: 100})
	for i := range 1000 {
		s.Take(limiter.Keys{fmt.Sprint("flood", i)})
	}
	got := 0
	for i := range 100 {
		got += took(s, 1, fmt.Sprint("person", i))
	}
	if got < 80 {
		t.Errorf("%d of 100 newcomers were allowed", got)
	}
}

func TestAKeyWithASlotIsNeverForgotten(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Concurrency: 1, Size: 10})
	held := s.Take(limiter.Keys{"holder"})
	for i := range 1000 {
		d := s.Take(limiter.Keys{fmt.Sprint("other", i)})
		d.Done()
	}
	want(t, "a second slot", took(s, 1, "holder"), 0)
	held.Done()
	want(t, "after Done", took(s, 1, "holder"), 1)
}

func TestAKeyMayLieInABufferThatIsUsedAgain(t *testing.T) {
	s := stack(t, newClock().now, limiter.Layer{Name: "user", Rate: 1, Burst: 1})
	buf := []byte("alice")
	want(t, "alice", took(s, 2, unsafeString(buf)), 1)
	copy(buf, "bobby")
	want(t, "bobby", took(s, 2, unsafeString(buf)), 1)
	want(t, "alice again", took(s, 2, "alice"), 0)
}

// Whatever the order of calls, clock and evictions: in no stretch of time has any
// key more than burst + rate × time, and no more slots than allowed.
func TestNoKeyEverGetsMoreThanItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		l := limiter.Layer{
			Name: "user", Period: time.Second,
			Rate:        float64(rapid.IntRange(1, 20).Draw(t, "rate")),
			Burst:       rapid.IntRange(1, 5).Draw(t, "burst"),
			Concurrency: rapid.IntRange(0, 3).Draw(t, "slots"),
			Size:        rapid.IntRange(1, 6).Draw(t, "size"),
		}
		s, err := limiter.New([]limiter.Layer{l}, c.now)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string][]time.Duration{} // when each key was allowed
		held := map[string][]limiter.Decision{}
		var elapsed time.Duration
		for range rapid.IntRange(1, 300).Draw(t, "calls") {
			key := fmt.Sprint("k", rapid.IntRange(0, 12).Draw(t, "key"))
			switch rapid.IntRange(0, 9).Draw(t, "act") {
			case 0:
				d := time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond
				c.add(d)
				elapsed += d
			case 1:
				for i := range held[key] {
					held[key][i].Done()
				}
				held[key] = nil
			default:
				if d := s.Take(limiter.Keys{key}); d.OK {
					at[key] = append(at[key], elapsed)
					held[key] = append(held[key], d)
				}
			}
			if n := len(held[key]); l.Concurrency > 0 && n > l.Concurrency {
				t.Fatalf("%s holds %d slots of %d", key, n, l.Concurrency)
			}
		}
		for key, when := range at {
			for i := range when {
				for j := i; j < len(when); j++ {
					most := float64(l.Burst) + l.Rate*(when[j]-when[i]).Seconds() + 1e-6
					if n := j - i + 1; float64(n) > most {
						t.Fatalf("%s: %d in %v, at most %.2f", key, n, when[j]-when[i], most)
					}
				}
			}
		}
	})
}
