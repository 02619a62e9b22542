package redisd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// watchEvery bounds how long a dead holder or server goes unnoticed.
	watchEvery = 100 * time.Millisecond
	// maxRestarts in a row, each without a life of steadyAfter, and we give up.
	maxRestarts = 6
	steadyAfter = 30 * time.Second
	firstPause  = 100 * time.Millisecond // doubled each time: 6.3 s in all
)

// watch keeps the Redis alive until ctx ends.
func (s *Server) watch(ctx context.Context) {
	var err error
	switch {
	case s.at.Mode == ModeLocal:
		err = s.watchLocal(ctx)
	case s.Attached():
		err = s.watchMemoryHolder(ctx)
	}
	if err != nil {
		s.log.Error("redis: given up", "error", err)
		s.failed <- err
	}
}

// watchMemoryHolder returns an error when the process that holds the memory is gone. Another
// may have begun anew on the folder meanwhile; that is another, empty stock, and not ours.
func (s *Server) watchMemoryHolder(ctx context.Context) error {
	for pause(ctx, watchEvery) {
		st, err := s.folder.readState()
		if isTaken(s.folder.file(lockFile)) && err == nil && st.endpoint == s.at {
			continue
		}
		if h, _ := probe(ctx, s.at); h == ready || ctx.Err() != nil {
			continue
		}
		return errors.New("the process that held the Redis in its memory has ended, and the stock with it")
	}
	return nil
}

// watchLocal takes the place of a dead holder, and while we hold, restarts a redis-server that
// died or that nobody can reach any more.
func (s *Server) watchLocal(ctx context.Context) error {
	r := restarts{born: time.Now()}
	lost := absence{limit: lostAfter}
	for pause(ctx, watchEvery) {
		if !s.succeed() {
			continue
		}
		s.keepState()
		h, why := probe(ctx, s.at)
		if s.runs() {
			if !lost.over(why) || ctx.Err() != nil {
				continue
			}
			if done, err := s.replaceWithin(ctx); err != nil || !done {
				return err
			}
		} else if h != dead || ctx.Err() != nil {
			continue
		}
		if err := s.startAgain(ctx, &r); err != nil {
			return err
		}
		lost = absence{limit: bornWithin}
	}
	return nil
}

// keepState writes redis.json again if somebody has removed it; without it nobody can attach.
func (s *Server) keepState() {
	if _, err := os.Stat(s.folder.file(stateFile)); errors.Is(err, os.ErrNotExist) {
		_ = s.folder.writeState(s.at) // tried again at the next look
	}
}

// replaceWithin is replace for a watch; done is false if ctx ended first.
func (s *Server) replaceWithin(ctx context.Context) (done bool, err error) {
	limited, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err = s.replace(limited); ctx.Err() != nil {
		return false, nil // Close ends it
	}
	return err == nil, err
}

// restarts counts how often redis-server died.
type restarts struct {
	fails int
	born  time.Time
}

// startAgain starts redis-server after a pause that grows; an error means to give up.
func (s *Server) startAgain(ctx context.Context, r *restarts) error {
	if time.Since(r.born) > steadyAfter {
		r.fails = 0
	}
	if r.fails == maxRestarts {
		return fmt.Errorf("redis-server of %s died %d times in a row: %s", s.folder.name, r.fails+1, lastWords(s.folder.file(logFile), 0))
	}
	if s.binary == "" {
		return fmt.Errorf("redis-server of %s died and no redis-server was found to start again", s.folder.name)
	}
	s.log.Error("redis: redis-server has ended, starting it again", "folder", s.folder.name, "attempt", r.fails+1)
	if r.fails > 0 && !pause(ctx, firstPause<<(r.fails-1)) {
		return nil
	}
	r.born = time.Now()
	r.fails++
	if err := s.spawn(); err != nil {
		s.log.Error("redis: it does not start", "error", err)
	}
	return nil
}

// succeed tells whether we are the holder, and becomes it if there is none.
func (s *Server) succeed() bool {
	if s.holds != nil {
		return true
	}
	lock, err := tryLock(s.folder.file(lockFile), exclusive)
	if err != nil {
		return false
	}
	s.holds = lock
	s.attached.Store(false)
	if err := s.folder.writeState(s.at); err != nil {
		s.log.Warn("redis: the new holder is not written down", "error", err)
	}
	s.log.Warn("redis: the process that looked after redis-server is gone; we do now", "folder", s.folder.name)
	return true
}
