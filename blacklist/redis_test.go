package blacklist

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// onEachRedis runs a test in memory and on a real server.
func onEachRedis(t *testing.T, test func(t *testing.T, dial func() *redis.Client)) {
	t.Run("memory", func(t *testing.T) {
		m := miniredis.RunT(t)
		test(t, func() *redis.Client { return client(t, &redis.Options{Addr: m.Addr()}) })
	})
	t.Run("real", func(t *testing.T) {
		socket := startRedis(t)
		test(t, func() *redis.Client { return client(t, &redis.Options{Network: "unix", Addr: socket}) })
	})
}

func client(t *testing.T, o *redis.Options) *redis.Client {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func startRedis(t *testing.T) (socket string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatal("redis-server is required and not on PATH")
		}
		t.Skip("no redis-server on PATH")
	}
	dir := t.TempDir()
	socket = filepath.Join(dir, "r.sock")
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	c := client(t, &redis.Options{Network: "unix", Addr: socket})
	eventually(t, 5*time.Second, "redis-server answers", func() bool {
		return c.Ping(context.Background()).Err() == nil
	})
	return socket
}

// eventually waits for a condition, never for a time.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		case <-tick.C:
		}
	}
}

var errBroken = errors.New("connection broken")

// fault breaks a client: every command fails, either before it is sent or
// after it was executed.
type fault struct{ before, after atomic.Bool }

func (f *fault) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *fault) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.before.Load() {
			cmd.SetErr(errBroken)
			return errBroken
		}
		err := next(ctx, cmd)
		if f.after.Load() && err == nil {
			cmd.SetErr(errBroken)
			return errBroken
		}
		return err
	}
}

func (f *fault) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// failOn breaks one command by name.
type failOn struct{ name string }

func (f failOn) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failOn) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == f.name {
			cmd.SetErr(errBroken)
			return errBroken
		}
		return next(ctx, cmd)
	}
}

func (f failOn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func breakable(c *redis.Client) *fault {
	f := new(fault)
	c.AddHook(f)
	return f
}

func newList(t *testing.T, c redis.UniversalClient, change ...func(*Config)) *List {
	t.Helper()
	config := Config{Redis: c}
	for _, f := range change {
		f(&config)
	}
	l, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// run keeps l fresh until the test ends, and waits for it to stop.
func run(t *testing.T, l *List) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
