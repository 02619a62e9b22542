package limiter_test

import (
	"strings"
	"testing"
	"time"

	"weir/limiter"
)

func hot() limiter.Layer {
	return limiter.Layer{Name: "item", Rate: 1, Burst: 2, Size: 4, Except: map[string]limiter.Numbers{
		"hot": {Rate: 10, Burst: 20}, "busy": {Concurrency: 3}, "free": {Off: true}, "slow": {Rate: 0.1, Burst: 1},
	}}
}

func TestExcept_AKeyHasNumbersOfItsOwn(t *testing.T) {
	c := newClock()
	s := stack(t, c.now, hot())
	want(t, "any", took(s, 99, "any"), 2)
	want(t, "slow", took(s, 99, "slow"), 1)
	want(t, "free", took(s, 99, "free"), 99)
	want(t, "hot", took(s, 99, "hot"), 20)
	c.add(time.Second)
	want(t, "any, a second on", took(s, 99, "any"), 1)
	want(t, "slow, a second on", took(s, 99, "slow"), 0)
	want(t, "hot, a second on", took(s, 99, "hot"), 10)
	if d := s.Take(limiter.Keys{"slow"}); d.OK || d.RetryAfter != 9*time.Second+1 && d.RetryAfter != 9*time.Second {
		t.Errorf("%+v", d)
	}
}

func TestExcept_ItsSlotsAreItsOwn(t *testing.T) {
	s := stack(t, time.Now, hot())
	var held []limiter.Decision
	for i := range 4 {
		d := s.Take(limiter.Keys{"busy"})
		if d.OK != (i < 3) {
			t.Fatalf("%d: %+v", i, d)
		}
		held = append(held, d)
	}
	if n := s.Stats()[0].InFlight; n != 3 {
		t.Fatalf("%d in flight", n)
	}
	for i := range held {
		held[i].Done()
	}
	if n := s.Stats()[0].InFlight; n != 0 {
		t.Fatalf("%d in flight", n)
	}
}

// TestExcept_IsNotLostInACrowd: the table is full of others that were refused.
func TestExcept_IsNotLostInACrowd(t *testing.T) {
	s := stack(t, newClock().now, hot())
	for _, key := range strings.Split("abcdefghijklmnop", "") {
		took(s, 9, key)
	}
	want(t, "hot", took(s, 99, "hot"), 20)
	for _, key := range strings.Split("ABCDEFGHIJKLMNOP", "") {
		took(s, 9, key)
	}
	want(t, "hot, again", took(s, 99, "hot"), 0)
}

func TestExcept_ComesAndGoesWithAnUpdateAndKeepsWhatIsSpent(t *testing.T) {
	c := newClock()
	plain := hot()
	plain.Except = nil
	s := stack(t, c.now, plain)
	want(t, "before", took(s, 99, "hot"), 2)
	if err := s.Update([]limiter.Layer{hot()}); err != nil {
		t.Fatal(err)
	}
	want(t, "no second budget", took(s, 99, "hot"), 0)
	c.add(time.Second)
	want(t, "its own rate", took(s, 99, "hot"), 10)
	if err := s.Update([]limiter.Layer{plain}); err != nil {
		t.Fatal(err)
	}
	c.add(time.Second)
	want(t, "as all others", took(s, 99, "hot"), 1)
}

func TestExcept_FaultsNameTheKey(t *testing.T) {
	l := hot()
	l.Except["bad"] = limiter.Numbers{Rate: 1}
	l.Except[""] = limiter.Numbers{Rate: 1, Burst: 1}
	l.Except["none"] = limiter.Numbers{}
	_, err := limiter.New([]limiter.Layer{l}, time.Now)
	for _, word := range []string{`except "bad": burst: 0, 1 to`, "except: a key is empty", `except "none": rate: 0 and no concurrency: nothing is limited`} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}
