package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const gapReason = "changes of the stock are missing after a restart of Redis"

// beyondAnySeq is more than any bucket has.
const beyondAnySeq = 1<<53 - 1

// rearm accepts a new server run for a bucket. A restart that kept every change
// goes on at once; otherwise the sale is paused, loudly, and stays so until an
// operator resumes it. Callers that find the same bucket stale at once share it.
func (s *Store) rearm(ctx context.Context, e *entry, c *cell) error {
	seen, owed := c.watch.judge()
	least := seen
	if owed { // a reading has found the gap; whatever the server has left is too little
		least = beyondAnySeq
	}
	r, shared, err := s.armOnce(ctx, c, least)
	if err != nil || shared {
		return err
	}
	sale := e.view.Sale.ID
	switch r.code {
	case 0:
		s.log.Info("Redis restarted; the stock is complete and goes on", "sale", sale, "bucket", c.index, "seq", r.seq)
	case 2:
		if owed {
			return errors.Join(s.pauseOwed(ctx, e, c), s.replay(ctx, e, c))
		}
		return errors.Join(s.pauseForGap(ctx, e, c, seen, r.seq), s.replay(ctx, e, c))
	case -1:
		return errNoBucket(sale)
	}
	return nil
}

// armOnce runs the script. What follows it asks other buckets, which may have to
// be armed as well, so the lock is not held for that.
func (s *Store) armOnce(ctx context.Context, c *cell, least int64) (r reply, shared bool, err error) {
	before := c.arms.Load()
	c.arm.Lock()
	defer c.arm.Unlock()
	if c.arms.Load() != before {
		return reply{}, true, nil
	}
	v, err := s.run(ctx, &s.scripts.rearm, []string{c.headKey()}, c.generation, least, s.settling().Milliseconds())
	if err != nil {
		return reply{}, false, err
	}
	if r, err = parseReply("bucket_rearm", v); err == nil {
		c.arms.Add(1)
	}
	return r, false, err
}

// settling is how long a bucket that was armed sells nothing, while other
// replicas may find that they saw more of it: long enough for some readings. A
// replica that is alone has judged it when it arms it.
func (s *Store) settling() time.Duration {
	if s.views.Load().replicas > 1 {
		return 4 * s.every
	}
	return 0
}

func (s *Store) pauseForGap(ctx context.Context, e *entry, c *cell, seen, found int64) error {
	s.log.Error("STOCK LOST: Redis has forgotten changes; the sale is paused, compare it with the shop's orders",
		"sale", e.view.Sale.ID, "bucket", c.index, "seen", seen, "found", found, "missing", seen-found,
		"remedy", "weir sale reconcile "+e.view.Sale.ID)
	s.seen.lost.Add(1)
	return s.pauseOwed(ctx, e, c)
}

// pauseOwed pauses the sale of a bucket with a gap. Until that has succeeded
// every refresh tries it again.
func (s *Store) pauseOwed(ctx context.Context, e *entry, c *cell) error {
	c.watch.owe(true)
	err := s.pause(ctx, e, gapReason)
	if err == nil {
		c.watch.owe(false)
	}
	return err
}

// pause stops a sale by weir's own decision.
func (s *Store) pause(ctx context.Context, e *entry, reason string) error {
	if e.view.Desired == DesiredCancelled {
		return nil
	}
	if err := s.setDesired(ctx, e.view.Sale.ID, DesiredPaused, reason); err != nil {
		return fmt.Errorf("pausing sale %s: %w", e.view.Sale.ID, err)
	}
	return nil
}

// replay tells a server that may have forgotten them the wins that this replica
// answered in the last 30 s. What it still knows stays as it is.
func (s *Store) replay(ctx context.Context, e *entry, c *cell) error {
	c.untold.add(c.recent.wins(s.nano())...)
	return s.tell(ctx, e, c)
}

// tell restores the wins that are still to be told. A server that took over a
// moment ago may not take writes yet: then the rest waits for the next refresh.
func (s *Store) tell(ctx context.Context, e *entry, c *cell) error {
	var faults []error
	restored := 0
	wins := c.untold.all()
	told := make(map[string]bool, len(wins))
	for i, r := range wins {
		_, back, err := s.restore(ctx, r)
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
			faults = append(faults, fmt.Errorf("%d wins of sale %s are still to be told again: %w", len(wins)-i, r.Sale, err))
			break
		}
		told[r.ID] = true
		if err != nil {
			c.unkept.add(r)
			s.log.Error("STOCK LOST: a win cannot be restored", "sale", r.Sale, "reservation", r.ID, "user", r.User, "error", err)
			faults = append(faults, err)
		}
		if back {
			restored++
		}
	}
	c.untold.done(told)
	if restored > 0 {
		s.log.Warn("restored wins that Redis had forgotten", "sale", e.view.Sale.ID, "bucket", c.index, "count", restored)
	}
	return errors.Join(faults...)
}
