package sampleshop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// onBoth runs a test on miniredis and on a real redis-server.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Run("memory", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, rdb)
	})
	t.Run("real", func(t *testing.T) { test(t, realRedis(t)) })
}

// realRedis starts a redis-server of its own on a unix socket.
func realRedis(t *testing.T) redis.UniversalClient {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatal("redis-server is required and not on PATH")
		}
		t.Skip("no redis-server on PATH")
	}
	dir, err := os.MkdirTemp("", "shop") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "r.sock")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	eventually(t, func() bool { return rdb.Ping(context.Background()).Err() == nil })
	return rdb
}

// eventually waits up to 10 s for a condition.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited 10 s in vain")
		}
	}
}
