package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/inventory"
)

// table is the leases in memory, as a replica sees it.
type table struct {
	*leases
	replica string
}

type leases struct {
	mu    sync.Mutex
	now   func() time.Time
	until map[string]time.Time
	owner map[string]string
	err   error
}

func (l table) Lease(_ context.Context, job string, d time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.owner[job] != l.replica && l.now().Before(l.until[job]) {
		return false, l.err
	}
	l.until[job], l.owner[job] = l.now().Add(d), l.replica
	return true, nil
}

// rounds looks once a second for d and returns how many passes there were.
func rounds(t *testing.T, s *shelf, d time.Duration, all ...*copies) int {
	t.Helper()
	before := 0
	for _, c := range all {
		before -= len(c.passes)
	}
	for range int(d / time.Second) {
		for _, c := range all {
			c.round(t.Context())
		}
		s.advance(time.Second)
	}
	for _, c := range all {
		before += len(c.passes)
	}
	return before
}

func wantPasses(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d passes, want %d", what, got, want)
	}
}

func TestASaleIsCopiedPeriodicallyWhenSoldOutAndAtItsEnd(t *testing.T) {
	d, s := open(t, newSQLite(t)), newShelf()
	sale := plan(3)
	s.put(sale)
	c := newCopier(t, s, d, nil)
	wantPasses(t, "a new sale", rounds(t, s, time.Minute, c), 1)
	wantPasses(t, "nothing changed", rounds(t, s, 5*time.Minute, c), 0)
	s.put(sale, row(1, inventory.Confirmed, 1))
	wantPasses(t, "a change", rounds(t, s, 5*time.Minute, c), 1)
	if st := c.Status()[0]; st.Lag != 0 || st.Rows != 1 || st.LastSuccess.IsZero() {
		t.Errorf("status %+v", st)
	}
	s.put(sale, row(2, inventory.Reserved, 1))
	c.round(t.Context()) // is tried now, an interval may pass again
	s.put(sale, row(2, inventory.Confirmed, 1), row(3, inventory.Confirmed, 1))
	wantPasses(t, "sold out, at once", rounds(t, s, time.Second, c), 1)
	wantPasses(t, "sold out, and still", rounds(t, s, time.Minute, c), 0)
	s.advance(sale.EndAt.Sub(s.clock()))
	wantPasses(t, "its end, though nothing changed", rounds(t, s, time.Second, c), 1)
	wantPasses(t, "after its end", rounds(t, s, time.Hour, c), 0)
	wantSold(t, d, 3)
}

func TestTheLagGrowsWhileCopiesFail(t *testing.T) {
	d, s := open(t, newSQLite(t)), newShelf()
	s.put(plan(3), row(1, inventory.Confirmed, 1))
	broken := &saboteur{Archive: d, at: 2}
	c := newCopier(t, s, broken, nil)
	rounds(t, s, time.Minute, c)
	s.put(plan(3), row(2, inventory.Confirmed, 1))
	rounds(t, s, time.Minute, c)
	if st := c.Status()[0]; st.Lag != 2*time.Minute || !errors.Is(st.Err, inventory.ErrOutcomeUnknown) || st.Failures != 1 {
		t.Fatalf("status %+v", st)
	}
	rounds(t, s, time.Minute, c)
	if st := c.Status()[0]; st.Lag != 0 || st.Err != nil {
		t.Fatalf("status %+v", st)
	}
	wantSold(t, d, 2)
}

func TestReplicasShareTheCopiesByLeases(t *testing.T) {
	d, s := open(t, newSQLite(t)), newShelf()
	leases := &leases{now: s.clock, until: map[string]time.Time{}, owner: map[string]string{}}
	a := newCopier(t, s, d, func(c *CopierConfig) { c.Leases = table{leases, "a"} })
	b := newCopier(t, s, d, func(c *CopierConfig) { c.Leases = table{leases, "b"} })
	for i := range 10 {
		s.put(plan(20), row(i, inventory.Confirmed, 1))
		wantPasses(t, fmt.Sprint("minute ", i), rounds(t, s, time.Minute, a, b), 1)
	}
	leases.err = inventory.ErrUnavailable
	s.put(plan(20), row(10, inventory.Confirmed, 1))
	wantPasses(t, "no leases to be had", rounds(t, s, 2*time.Minute, a, b), 0)
	leases.err = nil
	if n := rounds(t, s, 3*time.Minute, a, b); n < 1 || n > 2 {
		t.Errorf("%d passes when leases are back", n)
	}
	wantSold(t, d, 11)
	// The replica that has the lease dies; the other goes on an interval later.
	s.put(plan(20), row(11, inventory.Confirmed, 1))
	rounds(t, s, time.Minute, a, b)
	for i, alone := range []*copies{a, b} {
		s.put(plan(20), row(12+i, inventory.Confirmed, 1))
		rounds(t, s, 3*time.Minute, alone)
		wantSold(t, d, int64(13+i))
	}
}

func TestRunCopiesUntilItIsToldToStop(t *testing.T) {
	d, s := open(t, newSQLite(t)), newShelf()
	s.put(plan(3), row(1, inventory.Confirmed, 1))
	passed := make(chan struct{}, 1)
	c := newCopier(t, s, d, func(c *CopierConfig) {
		c.Interval, c.Now = time.Millisecond, time.Now
		c.OnPass = func(Copied, error) {
			select {
			case passed <- struct{}{}:
			default:
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for _, n := range []int64{1, 2} {
		s.put(plan(3), row(int(n), inventory.Confirmed, 1))
		for kept := (inventory.ArchivedSale{}); kept.Sold != n; kept, _ = d.Sale(t.Context(), "sale-1") {
			select {
			case <-passed:
			case <-time.After(10 * time.Second):
				t.Fatal("no pass in 10s")
			}
		}
	}
	cancel()
	must(t, <-ended)
}
