package stormtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/inventory"
)

// gate lets buyers order, or not while an operator looks.
type gate struct{ mu sync.RWMutex }

// told is what buyers were told. Safe for use by several goroutines.
type told struct {
	mu      sync.Mutex
	won     map[string]inventory.Reservation
	unknown map[string]inventory.Order // last answer
	wins    map[int][]time.Time        // when, by bucket
}

func newTold() *told {
	return &told{won: map[string]inventory.Reservation{}, unknown: map[string]inventory.Order{}, wins: map[int][]time.Time{}}
}

// note keeps one answer.
func (k *told) note(o inventory.Order, r inventory.Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, inventory.ErrOutcomeUnknown) {
		k.unknown[o.ID] = o
	}
	if err != nil { // and what is definite says nothing of an earlier try with this id
		return
	}
	delete(k.unknown, o.ID)
	if r.Code == inventory.Taken || r.Code == inventory.TakenLast || (r.Code == inventory.Known && r.Reservation.State == inventory.Reserved) {
		k.won[o.ID] = r.Reservation
		k.wins[r.Reservation.Bucket] = append(k.wins[r.Reservation.Bucket], time.Now())
	}
}

// units is how many were won, or may have been.
func (k *told) units() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(len(k.won) + len(k.unknown))
}

func (k *told) winners() map[string]inventory.Reservation {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[string]inventory.Reservation, len(k.won))
	for id, r := range k.won {
		all[id] = r
	}
	return all
}

func (k *told) open() []inventory.Order {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []inventory.Order
	for _, o := range k.unknown {
		all = append(all, o)
	}
	return all
}

// longestGap is the longest time without a win in a bucket, from then on until its last one.
func (k *told) longestGap(bucket int, from time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	var longest time.Duration
	for _, at := range k.wins[bucket] {
		if at.Before(from) {
			continue
		}
		longest, from = max(longest, at.Sub(from)), at
	}
	return longest
}

// crowd is all buyers; ended is closed when they have gone home.
type crowd struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// goHome ends the storm, when all have their answers.
func (c crowd) goHome() {
	c.stop()
	<-c.ended
}

// release lets the buyers go. Each is another user with every order.
func (s *storm) release() crowd {
	ctx, cancel := context.WithCancel(s.t.Context())
	c := crowd{stop: cancel, ended: make(chan struct{})}
	var all sync.WaitGroup
	var users atomic.Int64
	for i := range s.plan.Buyers {
		all.Go(func() { s.buy(ctx, s.weirs[i%len(s.weirs)], &users) })
	}
	go func() { all.Wait(); close(c.ended) }()
	return c
}

// buy orders again and again, also when the sale seems dry.
func (s *storm) buy(ctx context.Context, w *inventory.Store, users *atomic.Int64) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		user := fmt.Sprintf("user-%011d", users.Add(1))
		o := inventory.Order{ID: inventory.NewOrderID(saleID, user), Sale: saleID, Item: item, User: user, Quantity: 1, AttemptFor: attemptFor}
		if w == s.weirs[1] && s.dead.Load() {
			w = s.weirs[0] // a balancer sends its buyers elsewhere
		}
		s.ask(ctx, w, o)
	}
}

// ask orders once, and once more with the same id if the outcome is unknown, as the reservation's page does.
func (s *storm) ask(ctx context.Context, w *inventory.Store, o inventory.Order) {
	s.gate.mu.RLock()
	defer s.gate.mu.RUnlock()
	for range 2 {
		own, cancel := context.WithTimeout(ctx, 3*time.Second)
		r, err := w.Reserve(own, o)
		cancel()
		s.told.note(o, r, err)
		if !errors.Is(err, inventory.ErrOutcomeUnknown) {
			return
		}
	}
}
