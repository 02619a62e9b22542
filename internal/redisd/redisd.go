// Package redisd is the embedded Redis: it lets a newcomer start weir with one
// command, and two processes on one folder share one stock.
//
// One folder has at most one Redis, and a sale has its stock in at most one embedded Redis of
// an OS user. Both hold after kill -9 too, because they rest on file locks that the kernel
// drops with their process, not on pid files:
//
//	redis.lock    exclusive, by the process that looks after the Redis (the holder)
//	redis.users   shared, by every process that uses it; who gets it exclusively is the last
//	redis.server  exclusive, inherited by redis-server itself: taken means it lives
//	redis.json    how to reach it (mode 0600)
//
// A sale is known by its id: two folders that sell the same item under two ids have two stocks.
//
// It is meant for one host; several hosts share a Redis of their own. Locks are always taken
// in the order registry, redis.users, redis.lock.
package redisd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The modes of Options.Mode; Server.Mode answers with one of the last two.
const (
	ModeAuto   = "auto"   // local if a redis-server is found, else memory
	ModeLocal  = "local"  // a supervised redis-server with an append-only file
	ModeMemory = "memory" // miniredis in this process; nothing survives a restart
)

const (
	// startLimit bounds Start: an operator waits at most this long for "ready" or "why not".
	startLimit = 4500 * time.Millisecond
	// stopLimit bounds Close if its context has no deadline.
	stopLimit = 10 * time.Second
	// pollEvery is the step of every wait on another process, which cannot notify us.
	pollEvery = 20 * time.Millisecond
)

// Options say which Redis to start and where.
type Options struct {
	Mode   string       // ModeAuto ("" is the same), ModeMemory or ModeLocal
	Dir    string       // data folder, created with mode 0700; "" is "data"
	Binary string       // redis-server; "" looks for it on PATH
	Stock  []string     // ids of the sales whose stock this Redis will hold
	Log    *slog.Logger // nil is slog.Default()
}

// Server is a running embedded Redis, or the attachment to one of another process.
// All methods may be called from any goroutine.
type Server struct {
	log    *slog.Logger
	folder *folder
	binary string // "" if none was found
	at     endpoint
	as     string // for Describe: the server and its version

	users    *fileLock
	holds    *fileLock // redis.lock; nil while attached; owned by watch while it runs
	child    child     // the redis-server that we started, if we did; owned by watch
	mem      *memory   // miniredis of this process, if we hold one
	attached atomic.Bool

	failed chan error
	stop   context.CancelFunc
	loop   sync.WaitGroup
	closed sync.Once
	result error // of Close
}

// Start brings an embedded Redis up, adopts one that outlived its process, or attaches to
// the one of another process on the same folder. Within five seconds it returns a Server that
// answers, or one error that says what is wrong and what to do. ctx bounds the start only;
// the Server lives until Close.
func Start(ctx context.Context, o Options) (*Server, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s, err := start(limited, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("starting Redis: %w", context.Cause(ctx)) // not what it then stumbled over
	}
	return s, err
}

func start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		o.Dir = "data"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if !slices.Contains([]string{"", ModeAuto, ModeLocal, ModeMemory}, o.Mode) {
		return nil, fmt.Errorf("redis mode %q is unknown; it is auto, memory or local", o.Mode)
	}
	f, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	reg, err := openRegistry(ctx)
	if err != nil {
		return nil, err
	}
	defer reg.unlock()
	if err := reg.refuse(ctx, f.path, o.Stock); err != nil {
		return nil, err
	}
	s := &Server{log: o.Log, folder: f, failed: make(chan error, 1)}
	if err := s.bringUp(ctx, o); err != nil {
		s.release()
		return nil, err
	}
	if err := reg.record(f.path, o.Stock, s.at); err != nil {
		s.abandon(ctx)
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.loop.Go(func() { s.watch(watching) })
	return s, nil
}

// bringUp becomes the holder of the folder, or attaches to the holder's Redis.
func (s *Server) bringUp(ctx context.Context, o Options) error {
	binary, missing := findBinary(o.Binary)
	s.binary = binary
	if err := s.joinUsers(ctx); err != nil {
		return err
	}
	var last error
	for {
		lock, err := tryLock(s.folder.file(lockFile), exclusive)
		if err == nil {
			s.holds = lock
			return s.hold(ctx, o, missing)
		}
		if !errors.Is(err, errTaken) {
			return err
		}
		if done, err := s.attach(ctx, o.Mode); done {
			return err
		} else if err != nil {
			last = err
		}
		if !pause(ctx, pollEvery) {
			return fmt.Errorf("another process holds the data folder %s, but its Redis does not answer (%w); stop that process or choose another folder with --data", s.folder.name, last)
		}
	}
}

// hold makes the Redis of a folder whose lock we have.
func (s *Server) hold(ctx context.Context, o Options, missing error) error {
	local := s.folder.localEndpoint()
	if s.folder.serverLives(ctx, local) || len(s.folder.servers()) > 0 {
		if o.Mode == ModeMemory {
			return fmt.Errorf("redis mode is memory, but a redis-server of an earlier run is alive on the data folder %s and holds its stock; use mode local, or another folder with --data", s.folder.name)
		}
		if err := s.adopt(ctx, local); !errors.Is(err, errEnded) {
			return err
		}
	}
	if o.Mode == ModeMemory {
		return s.startMemory()
	}
	if missing == nil {
		return s.startLocal(ctx, local)
	}
	if o.Mode == ModeLocal || o.Binary != "" {
		return missing
	}
	if s.folder.hasAppendOnly() {
		return fmt.Errorf("the data folder %s holds the stock of an earlier run with redis-server, but %w; install it, or begin anew in another folder with --data", s.folder.name, missing)
	}
	return s.startMemory()
}

// attach connects to the Redis of the folder's holder. done is false while that is not ready.
func (s *Server) attach(ctx context.Context, mode string) (done bool, err error) {
	st, err := s.folder.readState()
	if err != nil {
		return false, err
	}
	if h, err := probe(ctx, st.endpoint); h != ready {
		return false, err
	}
	if mode == ModeLocal || mode == ModeMemory {
		if mode != st.Mode {
			return true, fmt.Errorf("redis mode is %s, but process %d shares the data folder %s in mode %s; use the same mode, or another folder with --data", mode, st.Holder, s.folder.name, st.Mode)
		}
	}
	s.at = st.endpoint
	s.attached.Store(true)
	if err := s.describe(ctx); err != nil {
		return true, err
	}
	s.log.Info("redis: attached", "folder", s.folder.name, "holder", st.Holder, "mode", st.Mode)
	return true, nil
}

// Mode is ModeLocal or ModeMemory.
func (s *Server) Mode() string { return s.at.Mode }

// Attached tells whether another process looks after the Redis that we use. It turns false
// when that process has died and we took its place.
func (s *Server) Attached() bool { return s.attached.Load() }

// Network is how to connect: ("unix", path, "") or ("tcp", host:port, password). It stays
// the same for the life of the Server, over restarts of redis-server too.
func (s *Server) Network() (network, address, password string) {
	return s.at.Network, s.at.Address, s.at.Password
}

// Describe says in a few words for the banner what runs.
func (s *Server) Describe() string {
	if s.Attached() {
		return s.as + ", shared with another process"
	}
	return s.as
}

// Failed yields one error if the Redis is gone and cannot be brought back. A memory Redis dies
// with the process that holds it, and an attached process must not go on with an empty one.
func (s *Server) Failed() <-chan error { return s.failed }

// describe asks the server for its version and refuses one that is too old.
func (s *Server) describe(ctx context.Context) error {
	if s.at.Mode == ModeMemory {
		s.as = "memory (nothing survives a restart)"
		return nil
	}
	version, err := serverVersion(ctx, s.at)
	if err != nil {
		return fmt.Errorf("asking redis-server for its version: %w", err)
	}
	s.as = fmt.Sprintf("local redis-server %s, %s/, append-only", version, s.folder.name)
	return nil
}

// pause waits for d and tells whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
