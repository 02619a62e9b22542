package inventory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	maxBatch   = 128      // most orders in a flight: more would keep others of this Redis waiting
	maxBytes   = 64 << 10 // most bytes of a flight
	maxFlights = 2        // scripts of one bucket and replica on their way
	// maxWaiting bounds the orders that wait for a flight of one bucket; the
	// next one is told to come again.
	maxWaiting = 8192
	// flightTime bounds a flight that carries others; its members wait with
	// deadlines of their own.
	flightTime = 2 * time.Second
)

// passenger is one order on its way.
type passenger struct {
	order Order
	done  chan struct{}

	answer answer // what the flight brought; the caller's once done is closed
	err    error
}

func newPassenger(o Order) *passenger { return &passenger{order: o, done: make(chan struct{})} }

// bytes is what the order adds to a flight, about.
func (p *passenger) bytes() int {
	o := &p.order
	return len(o.ID) + len(o.User) + len(o.Item) + len(o.Kind) + 64
}

// flights gathers the orders of a bucket that come while a script is on its
// way, to travel together in the next one. There is no timer: who finds no
// flight goes at once, alone and on his own time.
type flights struct {
	mu      sync.Mutex
	waiting []*passenger
	running int
}

// fly runs one script for these orders and gives each its answer.
type fly func(ctx context.Context, all []*passenger)

// carry brings the order there and back. The error is ErrUnavailable when it
// left before departure, and so was not sent; ErrOutcomeUnknown after it.
func (f *flights) carry(ctx context.Context, s *Store, p *passenger, fly fly) (answer, error) {
	if s.batch == 1 { // one script an order: nobody waits for anybody
		own, cancel := bounded(ctx)
		defer cancel()
		fly(own, []*passenger{p})
		return p.answer, p.err
	}
	f.mu.Lock()
	if f.running < maxFlights && len(f.waiting) == 0 {
		f.running++
		f.mu.Unlock()
		own, cancel := bounded(ctx)
		fly(own, []*passenger{p})
		cancel()
		f.land(s, fly)
		return p.answer, p.err
	}
	if len(f.waiting) >= maxWaiting {
		f.mu.Unlock()
		return answer{}, fmt.Errorf("%w: %d orders wait already", ErrUnavailable, maxWaiting)
	}
	f.waiting = append(f.waiting, p)
	f.mu.Unlock()
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
	}
	if f.leave(p) {
		return answer{}, fmt.Errorf("waiting for a flight: %w: %w", ErrUnavailable, ctx.Err())
	}
	select {
	case <-p.done: // it has just landed
		return p.answer, p.err
	default: // what p holds belongs to the flight now
		return answer{}, fmt.Errorf("on a flight: %w: %w", ErrOutcomeUnknown, ctx.Err())
	}
}

// bounded keeps a lone caller's own deadline if it is near enough.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= flightTime {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, flightTime)
}

// leave takes a passenger out of the queue; false when it has departed.
func (f *flights) leave(p *passenger) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, p)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	return true
}

// land lets the next flight go if anybody waits.
func (f *flights) land(s *Store, fly fly) {
	f.mu.Lock()
	next := f.board(s.batch)
	if next == nil {
		f.running--
	}
	f.mu.Unlock()
	if next == nil {
		return
	}
	s.background.Go(func() {
		for next != nil {
			ctx, cancel := context.WithTimeout(context.Background(), flightTime)
			fly(ctx, next)
			cancel()
			for _, p := range next {
				close(p.done)
			}
			f.mu.Lock()
			if next = f.board(s.batch); next == nil {
				f.running--
			}
			f.mu.Unlock()
		}
	})
}

// board takes who travels next, oldest first. Under the lock.
func (f *flights) board(most int) []*passenger {
	n, bytes := 0, 0
	for n < len(f.waiting) && n < most {
		if bytes += f.waiting[n].bytes(); bytes > maxBytes && n > 0 {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	all := f.waiting[:n:n]
	f.waiting = f.waiting[n:]
	if len(f.waiting) == 0 {
		f.waiting = nil
	}
	return all
}
