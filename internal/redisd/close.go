package redisd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// joinUsers waits for a shared lock on redis.users. It is refused only for the moment in
// which the last user shuts the server down.
func (s *Server) joinUsers(ctx context.Context) error {
	for {
		lock, err := tryLock(s.folder.file(usersFile), shared)
		if err == nil {
			s.users = lock
			return nil
		}
		if !errors.Is(err, errTaken) {
			return fmt.Errorf("the data folder %s cannot be used: %w", s.folder.name, err)
		}
		if !pause(ctx, pollEvery) {
			return fmt.Errorf("another process is shutting the Redis of the data folder %s down; start again in a moment", s.folder.name)
		}
	}
}

// Close ends the Redis if no other process uses it, and leaves it to them otherwise. A memory
// Redis ends with its holder in any case. It is safe to call twice; ctx bounds the wait for
// redis-server to end, by ten seconds if it has no deadline.
func (s *Server) Close(ctx context.Context) error {
	s.closed.Do(func() {
		s.stop()
		s.loop.Wait()
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, stopLimit)
			defer cancel()
		}
		reg, err := openRegistryWithin(ctx)
		if err != nil {
			s.result = s.end(ctx, func() {}) // its entries are dead ones, which the next start replaces
			return
		}
		defer reg.unlock()
		s.result = s.end(ctx, func() { reg.clear(s.folder.path) })
	})
	return s.result
}

// openRegistryWithin leaves half of the time for what is more important than the registry.
func openRegistryWithin(ctx context.Context) (*registry, error) {
	until, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(until)/2)
	defer cancel()
	return openRegistry(ctx)
}

// end closes what is ours to close, and calls gone when no stock is left on the folder.
func (s *Server) end(ctx context.Context, gone func()) error {
	defer s.release()
	if s.at.Mode == ModeMemory {
		if s.mem != nil {
			gone()
		}
		return nil
	}
	if s.users.change(exclusive) != nil {
		s.log.Info("redis: left to the other processes on the folder", "folder", s.folder.name)
		return nil
	}
	if err := s.shutDown(ctx); err != nil {
		return err
	}
	_ = os.Remove(s.at.Address)
	s.folder.removeState()
	gone()
	return nil
}

// shutDown asks redis-server to end and waits until it has.
func (s *Server) shutDown(ctx context.Context) error {
	// NOSAVE concerns the snapshot only, which we do not use; the append-only file is flushed.
	// The reply is an error (the connection ends) if all is well, so the lock is what counts.
	_, err := command(ctx, s.at, "SHUTDOWN", "NOSAVE")
	if nobodyListens(err) {
		return s.terminate(ctx) // which has nothing to do if the server is gone
	}
	for s.runs() || s.folder.serverLives(ctx, s.at) {
		if !pause(ctx, pollEvery) {
			return fmt.Errorf("redis-server of %s did not shut down in time (%w); the next start adopts it", s.folder.name, err)
		}
	}
	s.child.reap()
	return nil
}

// abandon undoes a start that failed after the Redis was up.
func (s *Server) abandon(ctx context.Context) {
	if s.at.Mode == ModeLocal && s.users.change(exclusive) == nil {
		_ = s.shutDown(ctx)
	}
	s.release()
}

// release gives back what this process holds. redis.lock goes before redis.users, so that
// whoever finds the users gone finds the place of the holder free.
func (s *Server) release() {
	if s.mem != nil {
		s.mem.close()
		s.folder.removeState()
	}
	s.child.reap()
	s.holds.unlock()
	s.users.unlock()
}
