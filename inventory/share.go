package inventory

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Share bounds what a replica asks Redis for: its part of the stock, with a
// buffer, as a renewable quota of units taken.
type Share struct {
	// Buffer is what a replica may take beyond its even part, e.g. 0.2: the more,
	// the more replicas may die without a wait, and the more scripts find nothing.
	Buffer float64
}

// quota is ceil(free / replicas × (1 + buffer)): S0-3.
func (s Share) quota(free, replicas int64) int64 {
	if free <= 0 {
		return 0
	}
	return int64(math.Ceil(float64(free) / float64(max(replicas, 1)) * (1 + s.Buffer)))
}

// share is a replica's quota of one sale: units that it may still take before
// it must look at the level again. It is a hint and never the truth: Redis
// decides. Any answer but a taken unit gives its part back.
type share struct {
	left  atomic.Int64
	out   atomic.Int64 // units of orders that spent some and have no answer yet
	dry   atomic.Int64 // when Redis last said that nothing is free, ns of the store's clock
	asked atomic.Int64 // orders that spent some of it, for tests and metrics
}

// take spends n units of the quota.
func (q *share) take(n int64) bool {
	for {
		left := q.left.Load()
		if left < n {
			// An order of several units may be larger than a small rest.
			if left <= 0 || n == 1 {
				return false
			}
		}
		if q.left.CompareAndSwap(left, left-n) {
			q.out.Add(n)
			q.asked.Add(1)
			return true
		}
	}
}

// renew follows a reading that was asked for at `at`: nothing free ends the
// quota, a spent one begins anew, and no quota is larger than what is free. What
// is still on its way may be among the units that were read as free, so it counts
// as spent; and a reading from before Redis said "none free" tells nothing new.
func (q *share) renew(free, quota, at int64) {
	left := q.left.Load()
	switch {
	case free <= 0:
		q.left.CompareAndSwap(left, min(left, 0))
	case left <= 0 && at < q.dry.Load():
	case left <= 0:
		q.left.CompareAndSwap(left, max(quota-q.out.Load(), left))
	case left > quota:
		q.left.CompareAndSwap(left, quota)
	}
}

// maxRenewals bounds how many readings an order waits for a new share.
const maxRenewals = 4

// admit spends the order's part of the share. Without one left it waits for the
// next reading, and when that brings none, it is answered from memory. An order
// that this replica has asked for before needs no share: it may have won. spent
// is where the share was taken, to be settled there: the wait may have brought
// another generation.
func (s *Store) admit(ctx context.Context, e *entry, o *Order) (spent *entry, from *Result, err error) {
	if s.share == nil || e.home(o.ID).recent.has(o.ID) {
		return nil, nil, nil
	}
	for range maxRenewals {
		if e.share.take(o.Quantity) {
			e.home(o.ID).recent.asked(o.ID, s.nano())
			return e, nil, nil
		}
		v := e.look(s.nano())
		switch {
		case v.SoldOut:
			return nil, &Result{Code: NotEnough, FromMemory: true}, nil
		case v.Level.Free == 0 && s.fresh():
			return nil, &Result{Code: NoneFreeNow, FromMemory: true, Until: v.Until}, nil
		}
		if err := s.nextReading(ctx); err != nil {
			return nil, nil, err
		}
		if e, err = s.entry(ctx, o.Sale); err != nil {
			return nil, nil, err
		}
	}
	return nil, &Result{Code: NoneFreeNow, FromMemory: true, Until: e.look(s.nano()).Until}, nil
}

// settleShare gives back what was not taken. After an unknown outcome the units
// may be taken, so the part stays spent until the next renewal.
func (e *entry) settleShare(quantity int64, r Result, err error, now int64) {
	defer e.share.out.Add(-quantity)
	switch {
	case err == nil && (r.Code == Taken || r.Code == TakenLast):
	case err == nil && (r.Code == NoneFreeNow || r.Code == NotEnough && r.Available == 0):
		e.share.dry.Store(now)
		e.share.left.Store(0) // until a reading says that something is free
	case err != nil && isUnknown(err):
	default:
		e.share.left.Add(quantity)
	}
}

// fresh: the last reading is younger than a refresh, so asking again now would
// tell nothing new.
func (s *Store) fresh() bool {
	return time.Duration(s.nano()-s.views.Load().at) < s.every
}

// nextReading waits until the views are read again, at most one refresh away:
// by Run, or by the first who comes here after that time.
func (s *Store) nextReading(ctx context.Context) error {
	snap := s.views.Load()
	wait := time.NewTimer(max(s.every-time.Duration(s.nano()-snap.at), 0))
	defer wait.Stop()
	select {
	case <-snap.replaced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the level: %w: %w", ErrUnavailable, ctx.Err())
	case <-wait.C:
	}
	if s.views.Load() != snap {
		return nil
	}
	return s.Refresh(ctx)
}
