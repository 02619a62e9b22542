package inventory

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// notExecuted are the error replies that Redis gives before a script's first
// write. WRONGTYPE and our own BROKEN belong to them because each script reads all its
// keys first.
func notExecuted() []string {
	return []string{
		"LOADING", "READONLY", "OOM", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT", "MASTERDOWN", "NOREPLICAS",
		"MISCONF", "BUSY", "NOAUTH", "NOPERM", "WRONGPASS", "NOSCRIPT", "WRONGTYPE", "BROKEN",
	}
}

// mapError sorts what a command came back with: was it executed or not?
func mapError(err error) error {
	switch {
	case err == nil:
		return nil
	case redis.HasErrorPrefix(err, "INVALID"):
		return fmt.Errorf("%w: %w", ErrInvalidOrder, err)
	case neverSent(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for _, prefix := range notExecuted() {
		if redis.HasErrorPrefix(err, prefix) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// neverSent: no connection was had. go-redis gives a bare context error only
// while it waits for one; a deadline that passes on a connection is a timeout
// of the network.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
