package blacklist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	pollTimeout   = time.Second      // one catch-up
	reloadTimeout = 30 * time.Second // one full reading
	reloadTries   = 3                // readings that a flood of changes overtook

	sweepEvery = 10 * time.Second
	sweepMost  = 256 // entries a script call may remove
	sweepCalls = 16  // calls a round
	// sweepGrace is longer than any clock of a replica may be off, so that the
	// cleanup never ends an entry before its time.
	sweepGrace = time.Minute
)

// errGap: the stream no longer holds the change that follows the snapshot.
var errGap = errors.New("changes are missing")

// Load reads the whole list. Until it has succeeded once a replica knows no
// ban, so start-up must fail without it. ErrUnavailable.
func (l *List) Load(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reload(ctx)
}

// Run keeps the snapshot fresh until ctx ends, then returns nil. A replica that
// misses the nudge catches up at the next poll; when Redis is away the last
// snapshot stays.
func (l *List) Run(ctx context.Context) error {
	nudges := make(chan struct{}, 1)
	var listening sync.WaitGroup
	listening.Go(func() { l.listen(ctx, nudges) })
	defer listening.Wait()

	poll := time.NewTicker(l.poll)
	defer poll.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-nudges:
		case <-poll.C:
		case <-sweep.C:
			l.sweep(ctx)
		}
		l.report(ctx, l.pull(ctx))
	}
}

// listen turns published messages into nudges; a full channel already says
// all that a nudge can say.
func (l *List) listen(ctx context.Context, nudges chan<- struct{}) {
	sub := l.store.redis.Subscribe(ctx, nudgeChannel())
	defer sub.Close()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-messages:
			if !open {
				return
			}
			select {
			case nudges <- struct{}{}:
			default:
			}
		}
	}
}

// report logs the first failure of a row and the recovery, not every poll.
func (l *List) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil && !l.stale.Swap(true) {
		l.log.Warn("blacklist not refreshed; the last snapshot keeps acting", "error", err)
	}
	if err == nil && l.stale.Swap(false) {
		l.log.Info("blacklist refreshed again")
	}
}

// sweep gives back the memory of expired entries, bounded per round.
func (l *List) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	for range sweepCalls {
		n, err := l.store.clean(ctx, sweepMost, sweepGrace)
		if err != nil || n < sweepMost {
			return // a failure shows in the pull that follows
		}
	}
}

// pull brings the snapshot up to Redis.
func (l *List) pull(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pullLocked(ctx)
}

func (l *List) pullLocked(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	view := l.view.Load()
	m, err := l.store.mark(short)
	if err != nil {
		return err
	}
	if m == view.mark {
		l.synced.Store(l.now().UnixNano())
		return nil
	}
	if m.epoch != view.epoch || m.seq < view.seq {
		if view.epoch != "" {
			l.log.Warn("blacklist was replaced in Redis; reading it whole", "known_seq", view.seq, "seq", m.seq)
		}
		return l.reload(ctx)
	}
	d := view.edit()
	err = l.catchUp(short, d, m.seq)
	if errors.Is(err, errGap) {
		l.log.Info("blacklist is too far behind; reading it whole", "known_seq", view.seq, "seq", m.seq)
		return l.reload(ctx)
	}
	if err != nil {
		l.show(&d.snapshot) // what was read is in order and without a hole
		return err
	}
	l.publish(&d.snapshot)
	return nil
}

// catchUp applies the changes up to target, in order and without a hole.
func (l *List) catchUp(ctx context.Context, d *draft, target int64) error {
	for d.seq < target {
		changes, err := l.store.after(ctx, d.seq)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return errGap
		}
		for _, c := range changes {
			if c.seq != d.seq+1 {
				return errGap
			}
			d.apply(c)
			d.seq = c.seq
		}
	}
	return nil
}

// reload reads the list whole. A scan is no point in time, so it is made one:
// the mark is read first and the changes that came since are applied on top.
// An incomplete scan is thrown away; the old snapshot stays.
func (l *List) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	for range reloadTries {
		m, err := l.store.mark(ctx)
		if err != nil {
			return err
		}
		d := newDraft()
		d.mark = m
		if err := l.store.all(ctx, d.apply); err != nil {
			return err
		}
		after, err := l.store.mark(ctx)
		if err != nil {
			return err
		}
		if after.epoch != m.epoch || after.seq < m.seq {
			continue
		}
		err = l.catchUp(ctx, d, after.seq)
		if errors.Is(err, errGap) {
			continue
		}
		if err != nil {
			return err
		}
		if d.broken > 0 {
			l.log.Warn("blacklist entries cannot be read and do not act", "count", d.broken)
		}
		l.publish(&d.snapshot)
		return nil
	}
	return fmt.Errorf("%w: the list changed faster than it could be read", ErrUnavailable)
}

// show makes s the list that checks see.
func (l *List) show(s *snapshot) {
	next := *s // drops the draft around it
	l.view.Store(&next)
}

// publish shows a snapshot that equals Redis.
func (l *List) publish(s *snapshot) {
	l.show(s)
	l.synced.Store(l.now().UnixNano())
}

// own makes this replica's own change act here at once. Its place in the order
// may come after changes not seen yet: then they are read too; when that fails
// the change acts alone and the next poll brings the rest.
func (l *List) own(ctx context.Context, m mark, c change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view := l.view.Load()
	if view.seq >= m.seq && view.epoch == m.epoch {
		return // a poll was faster
	}
	next := view.seq+1 == m.seq && view.epoch == m.epoch
	if !next && l.pullLocked(ctx) == nil {
		return
	}
	view = l.view.Load()
	d := view.edit()
	d.apply(c)
	if next {
		d.seq = m.seq
		l.publish(&d.snapshot)
		return
	}
	l.show(&d.snapshot)
}
