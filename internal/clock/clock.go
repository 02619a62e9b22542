// Package clock is weir's one clock: the time of the Redis server that the
// scripts judge by, available in memory. Every replica, page and script thus
// agrees on when a sale starts, however wrong the clock of a host is.
package clock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// syncEvery bounds how far two quartz clocks can part between two
	// measurements: 100 ppm over 2 s is 0.2 ms.
	syncEvery = 2 * time.Second
	// samples is how often one Sync asks; the fastest answer says most.
	samples = 5
	// sampleTimeout bounds one question, so that a hanging Redis costs a Sync
	// at most samples times this.
	sampleTimeout = 500 * time.Millisecond
)

// Clock tells Redis time without asking Redis.
//
// It never goes back. When a measurement says that it ran ahead (or Redis
// failed over to a server whose clock is behind), it stands still until Redis
// has caught up. It is not for measuring short durations: use time.Since.
// All methods may be called from any goroutine.
type Clock struct {
	rdb   redis.UniversalClient
	start time.Time // carries the monotonic reading that everything is counted from
	now   func() time.Time

	offset atomic.Int64 // Redis time minus local time, in ns
	last   atomic.Int64 // the latest answer of Now, in Unix ns
}

// New makes a clock that shows local time (offset 0) until the first Sync.
func New(rdb redis.UniversalClient) *Clock {
	return newAt(rdb, time.Now)
}

func newAt(rdb redis.UniversalClient, now func() time.Time) *Clock {
	return &Clock{rdb: rdb, start: now(), now: now}
}

// Now is the time of Redis. It takes no lock, allocates nothing and never goes back.
func (c *Clock) Now() time.Time {
	want := c.local() + c.offset.Load()
	for {
		last := c.last.Load()
		if last >= want {
			return time.Unix(0, last).UTC()
		}
		if c.last.CompareAndSwap(last, want) {
			return time.Unix(0, want).UTC()
		}
	}
}

// Offset is Redis time minus local time; 0 until measured.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Sync measures the offset: TIME is taken to be true at half the round trip, and of
// a few samples the one with the shortest trip counts. An offset that this sample
// cannot tell from the new one is kept, so that a slow network does not make the clock
// tremble. If no sample succeeds the offset stays and the last error is returned.
func (c *Clock) Sync(ctx context.Context) error {
	best, trip, err := c.measure(ctx)
	if err != nil {
		return fmt.Errorf("asking Redis for its time: %w", err)
	}
	if d := best - c.offset.Load(); d > trip/2 || d < -trip/2 {
		c.offset.Store(best)
	}
	return nil
}

// Run calls Sync at once and then every two seconds until ctx ends; it then returns nil.
// A failed Sync is not an end: the clock runs on with the offset that it has.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		_ = c.Sync(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// measure returns the offset and the round trip of the fastest sample, in ns.
func (c *Clock) measure(ctx context.Context) (offset, trip int64, err error) {
	found := false
	for range samples {
		o, rtt, serr := c.sample(ctx)
		switch {
		case serr != nil:
			err = serr
		case !found || rtt < trip:
			offset, trip, found = o, rtt, true
		}
		if ctx.Err() != nil {
			break
		}
	}
	if found {
		return offset, trip, nil
	}
	if err == nil {
		err = errors.New("no sample")
	}
	return 0, 0, err
}

func (c *Clock) sample(ctx context.Context) (offset, trip int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	before := c.local()
	t, err := c.rdb.Time(ctx).Result()
	after := c.local()
	if err != nil {
		return 0, 0, err
	}
	return t.UnixNano() - (before+after)/2, after - before, nil
}

// local is the host's time in Unix ns, counted on the monotonic clock from start, so that
// somebody who sets the host's clock does not move ours.
func (c *Clock) local() int64 {
	return c.start.UnixNano() + int64(c.now().Sub(c.start))
}
