package inventory

import (
	"context"
	"fmt"
)

const gapReason = "changes of the stock are missing after a restart of Redis"

// rearm accepts a new server run for a bucket. A restart that kept every change
// goes on at once; otherwise the sale is paused, loudly, and stays so until an
// operator resumes it.
func (s *Store) rearm(ctx context.Context, e *entry) error {
	seen := e.watch.seen()
	v, err := s.run(ctx, &s.scripts.rearm, []string{e.head}, e.view.Generation, seen)
	if err != nil {
		return err
	}
	r, err := parseReply("bucket_rearm", v)
	if err != nil {
		return err
	}
	sale := e.view.Sale.ID
	switch r.code {
	case 0:
		s.log.Info("Redis restarted; the stock is complete and goes on", "sale", sale, "seq", r.seq)
	case 2:
		return s.pauseForGap(ctx, e, seen, r.seq)
	case -1:
		return errNoBucket(sale)
	}
	return nil
}

func (s *Store) pauseForGap(ctx context.Context, e *entry, seen, found int64) error {
	sale := e.view.Sale.ID
	s.log.Error("STOCK LOST: Redis has forgotten changes; the sale is paused, compare it with the shop's orders",
		"sale", sale, "seen", seen, "found", found, "missing", seen-found)
	if e.view.Desired == DesiredCancelled {
		return nil
	}
	if err := s.setDesired(ctx, sale, DesiredPaused, gapReason); err != nil {
		return fmt.Errorf("pausing sale %s: %w", sale, err)
	}
	return nil
}
