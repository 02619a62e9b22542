package inventory

import (
	"context"
	"time"
)

// Lease lets this replica do a job of the background, alone for d of Redis
// time if all goes well; it is for liveness only, and no proof of anything. The
// holder prolongs it by asking again. False when another replica has it.
func (s *Store) Lease(ctx context.Context, job string, d time.Duration) (bool, error) {
	n, err := s.runInt(ctx, &s.scripts.lease, []string{leasesKey()}, job, s.replica, d.Milliseconds())
	return n == 1, err
}

// EndLease gives a lease back, if this replica still has it.
func (s *Store) EndLease(ctx context.Context, job string) error {
	_, err := s.runInt(ctx, &s.scripts.lease, []string{leasesKey()}, job, s.replica, 0)
	return err
}
