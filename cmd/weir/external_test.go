package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// external starts a redis-server of its own and gives its socket.
func external(t *testing.T, settings ...string) string {
	t.Helper()
	needRedis(t)
	dir, err := os.MkdirTemp("", "wr") // a short path: sockets have at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "r.sock")
	cmd := exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes"}, settings...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	rdb := redis.NewClient(&redis.Options{Addr: socket})
	defer rdb.Close()
	eventually(t, 10*time.Second, "redis-server answers", func() bool {
		var refusal redis.Error
		err := rdb.Ping(context.Background()).Err()
		return err == nil || errors.As(err, &refusal)
	})
	return socket
}

// onExternal is a configuration with an own folder on that Redis.
func onExternal(t *testing.T, socket string) Config {
	c := quiet(t, "external")
	c.Redis.Stock.Addresses = []string{"unix:" + socket}
	return c
}

func TestTwoReplicasWithOwnFoldersShareAnExternalRedis(t *testing.T) {
	socket := external(t)
	one := boot(t, onExternal(t, socket))
	two := boot(t, onExternal(t, socket))
	alice := one.person("alice")
	pass := alice.mustPass("demo")
	alice.w = two
	if r := alice.buy(pass); r.status != http.StatusSeeOther {
		t.Fatalf("a pass of one replica on the other: %s", r)
	}
	if a, b := one.invariant("demo"), two.invariant("demo"); a.Free != 99 || b.Free != 99 {
		t.Errorf("one stock: %+v %+v", a, b)
	}
	if one.p.madeToken != two.p.madeToken {
		t.Error("one token steers both")
	}
}

func TestARedisThatMayForgetStockIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		settings []string
		acl      []string
		want     string
	}{
		"evicting keys":     {[]string{"--maxmemory-policy", "allkeys-lru"}, nil, "noeviction"},
		"INFO is forbidden": {nil, []string{"ACL", "SETUSER", "default", "-info"}, "INFO must be allowed"},
		"a password":        {[]string{"--requirepass", "x"}, nil, "redis.stock.password_file or WEIR_REDIS_PASSWORD"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := external(t, c.settings...)
			if c.acl != nil {
				rdb := redis.NewClient(&redis.Options{Addr: socket})
				defer rdb.Close()
				args := make([]any, len(c.acl))
				for i, a := range c.acl {
					args[i] = a
				}
				if err := rdb.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			p, err := start(t.Context(), onExternal(t, socket), Secrets{}, testLog(t))
			if err == nil {
				p.close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestServersThatAreNoClusterAreNamedSo(t *testing.T) {
	c := onExternal(t, "")
	c.Redis.Stock.Addresses = []string{redistest.Single(t).Addr(), redistest.Single(t).Addr()}
	refused(t, c, "redis.stock (127.0.0.1:", "are nodes of a Cluster", "redis.stock.master")
}
