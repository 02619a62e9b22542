package limiter_test

import (
	"testing"
	"time"

	"weir/limiter"
)

func TestLimits_B50_TimestampsOutOfOrderMintNothing(t *testing.T) {
	c := newClock()
	n := 0
	s := stack(t, func() time.Time { // 20 µs forth and back, 1 µs on each time
		n++
		return c.now().Add(time.Duration(n)*time.Microsecond - time.Duration(n%2)*20*time.Microsecond)
	}, limiter.Layer{Name: "user", Rate: 100_000, Burst: 1000})
	got := took(s, 200_000, "u")
	if got > 1000+20_000+2 || got < 20_000 {
		t.Errorf("admitted %d in 200 ms at 100k/s with burst 1000, want about 21000 and never more", got)
	}
}

func TestLimits_B52_AClockSetBackNeitherFreezesNorGives(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 1, Burst: 5})
	want(t, "burst", took(s, 99, "u"), 5)
	c.add(-time.Hour)
	want(t, "right after the step back", took(s, 99, "u"), 0)
	c.add(3 * time.Second)
	want(t, "three seconds later", took(s, 99, "u"), 3)
	c.add(time.Hour)
	want(t, "set forward: one burst", took(s, 99, "u"), 5)
	want(t, "and no more", took(s, 99, "u"), 0)
}

func TestAClockThatSlipsBackALittleWaitsForItself(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, limiter.Layer{Name: "user", Rate: 10, Burst: 1})
	want(t, "burst", took(s, 9, "u"), 1)
	for range 100 { // two nodes' clocks 500 ms apart, in turn
		c.add(-500 * time.Millisecond)
		want(t, "behind", took(s, 9, "u"), 0)
		c.add(500 * time.Millisecond)
		want(t, "ahead", took(s, 9, "u"), 0)
	}
	c.add(100 * time.Millisecond)
	want(t, "one token on", took(s, 9, "u"), 1)
}
