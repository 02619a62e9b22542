package redistest

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time limits of the kit's clients.
const (
	dialTimeout = time.Second
	ioTimeout   = 2 * time.Second
)

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// Options are those of a client that does nothing behind the test's back: no
// retry, one dial, contexts obeyed, no commands of its own but HELLO.
func (n *Node) Options() *redis.Options {
	o := clientOptions(n.Addr())
	if n.kind == secured {
		o.TLSConfig = n.tlsConfig()
	}
	return o
}

func clientOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		DisableIdentity: true, MaintNotificationsConfig: noMaintenance(),
	}
}

// Client is a client with Options, closed when the test ends.
func (n *Node) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closed(t, redis.NewClient(n.Options()))
}

func closed[C interface{ Close() error }](t testing.TB, c C) C {
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// WithUser makes an ACL user, with rules such as "~*", "+@all". It lives until
// the node is killed.
func (n *Node) WithUser(t testing.TB, name, password string, rules ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">" + password}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := n.do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("redistest: user %s: %v", name, err)
	}
}

// do runs one command of the kit itself, on a connection of its own.
func (n *Node) do(ctx context.Context, args ...any) *redis.Cmd {
	o := clientOptions(n.Socket())
	o.Network, o.PoolSize = "unix", 1
	if n.kind == sentinel {
		o.Network, o.Addr = "tcp", n.Addr()
	}
	c := redis.NewClient(o)
	defer c.Close()
	return c.Do(ctx, args...)
}

func (n *Node) tlsConfig() *tls.Config { return readCA(n.t, n.dir) }
