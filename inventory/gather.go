package inventory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

const (
	// maxLine bounds the orders of one sale that wait here for units of other
	// buckets; the next one is told to come again.
	maxLine = 4096
	// gatherLease is how long a gatherer may take before another replica goes
	// on without it. Two at once do no harm.
	gatherLease = 2 * time.Second
	// gatherPause is how long a replica waits while another one gathers.
	gatherPause = 10 * time.Millisecond
	// maxPasses bounds how often one order is carried along.
	maxPasses = 4
)

// loan is units on their way from one bucket to another.
type loan struct {
	id    string // "" = none
	units int64
	from  int
}

func newLoanID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}

// line is where orders wait whose home bucket is dry while others may not be.
// Stock moves to them; they do not walk.
type line struct {
	mu      sync.Mutex
	waiting []*waiter
	running bool
}

// waiter is one order in line.
type waiter struct {
	passenger
	home    int
	passes  int
	told    answer // by its home bucket, last
	verdict answer // what the readings of all buckets say
}

// queueUp brings the order into the line and waits for what the gatherer finds.
// Nothing was taken for it so far, so leaving the line is no unknown outcome,
// unless it is on a flight.
func (s *Store) queueUp(ctx context.Context, e *entry, o Order, dry answer) (Result, error) {
	w := &waiter{passenger: passenger{order: o, done: make(chan struct{})}, home: e.home(o.ID).index, told: dry}
	l := &e.line
	l.mu.Lock()
	if len(l.waiting) >= maxLine {
		l.mu.Unlock()
		return Result{}, fmt.Errorf("%w: %d orders wait for units of other buckets", ErrUnavailable, maxLine)
	}
	l.waiting = append(l.waiting, w)
	start := !l.running
	l.running = true
	l.mu.Unlock()
	if start {
		s.background.Go(func() { s.gatherAll(e) })
	}
	select {
	case <-w.done:
		if w.err != nil {
			return Result{}, w.err
		}
		return s.result(e, e.cells[w.home], o, w.answer)
	case <-ctx.Done():
	}
	if l.leave(w) {
		return Result{Code: NoneFreeNow, FromMemory: true}, nil
	}
	return Result{}, fmt.Errorf("in line for other buckets: %w: %w", ErrOutcomeUnknown, ctx.Err())
}

// leave takes a waiter out; false when the gatherer has it in hand.
func (l *line) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.waiting {
		if x == w {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take empties the line; nil ends the gatherer.
func (l *line) take() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.waiting
	l.waiting = nil
	l.running = len(all) > 0
	return all
}

// back puts waiters in front of the line again.
func (l *line) back(all []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(all, l.waiting...)
}

// gatherAll works until the line is empty.
func (s *Store) gatherAll(e *entry) {
	for {
		if !s.awaitLease(e) {
			s.dismiss(e, e.line.take())
			if e.line.idle() {
				return
			}
			continue
		}
		all := e.line.take()
		if all == nil {
			s.dropLease(e)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), flightTime)
		g := gathering{s: s, e: e, waiting: all}
		g.pass(ctx)
		cancel()
		s.dropLease(e)
	}
}

// idle ends the gatherer when nobody came meanwhile.
func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.waiting) > 0
	return !l.running
}

// dismiss tells all of them to come again: nobody could gather for them.
func (s *Store) dismiss(e *entry, all []*waiter) {
	for _, w := range all {
		w.verdict = answer{code: int64(NoneFreeNow)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), flightTime)
	defer cancel()
	g := gathering{s: s, e: e, waiting: all}
	g.lastLook(ctx)
}

// awaitLease takes the sale's gatherer lease, or waits while another replica
// has it. The lease only keeps two from doing the same work; when it cannot be
// asked for, the line is told to come again.
func (s *Store) awaitLease(e *entry) bool {
	ctx, cancel := context.WithTimeout(context.Background(), gatherLease+time.Second)
	defer cancel()
	tick := time.NewTicker(gatherPause)
	defer tick.Stop()
	for {
		ok, err := s.Lease(ctx, gatherJob(e), gatherLease)
		if ok || err != nil {
			return ok && err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func (s *Store) dropLease(e *entry) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.EndLease(ctx, gatherJob(e)); err != nil {
		s.log.Debug("the gatherer's lease runs out by itself", "sale", e.view.Sale.ID, "error", err)
	}
}

func gatherJob(e *entry) string { return "gather " + e.view.Sale.ID }
