package limiter_test

import (
	"sync"
	"testing"
	"time"

	"weir/limiter"
)

// clock is a wall clock that tests move, also backward.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func stack(t testing.TB, now func() time.Time, layers ...limiter.Layer) *limiter.Stack {
	t.Helper()
	s, err := limiter.New(layers, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// took counts how many of n Takes are allowed; slots are kept.
func took(s *limiter.Stack, n int, keys ...string) int {
	ok := 0
	for range n {
		if d := s.Take(keys); d.OK {
			ok++
		}
	}
	return ok
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
