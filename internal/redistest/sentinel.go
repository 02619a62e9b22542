package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masterName = "weir"
	quorum     = 2
)

// RedisSentinel is a master with two replicas, watched by three Sentinels.
type RedisSentinel struct {
	nodes     []*Node
	sentinels []*Node
}

// Sentinel starts the six and returns when the replicas are in sync and every
// Sentinel knows them and the other two. A master counts as dead after 1 s;
// args are for the three servers.
func Sentinel(t testing.TB, args ...string) *RedisSentinel {
	t.Helper()
	s := &RedisSentinel{}
	servers, watchers := &group{}, &group{}
	for i := range 3 {
		n := newNode(t, plain, servers, args)
		if i > 0 {
			n.extra = []string{fmt.Sprint("replicaof 127.0.0.1 ", servers.nodes[0].port)}
		}
	}
	for range 3 {
		w := newNode(t, sentinel, watchers, nil)
		w.extra = []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterName, servers.nodes[0].port, quorum),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, nodeTimeout.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s %d", masterName, 3*nodeTimeout.Milliseconds()),
			fmt.Sprintf("sentinel parallel-syncs %s 2", masterName),
		}
	}
	s.nodes, s.sentinels = servers.nodes, watchers.nodes
	startAll(t, s.nodes...)
	for _, replica := range s.nodes[1:] {
		WaitReplica(t, replica)
	}
	startAll(t, s.sentinels...)
	for _, w := range s.sentinels {
		if err := w.hurry(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "Sentinels that know each other", func() error { return s.acquainted(t.Context()) })
	return s
}

// hurry shortens the periods that make a fresh trio wait, and keeps a busy test
// machine from sending a Sentinel into tilt, where it does nothing for 30 s.
func (n *Node) hurry(ctx context.Context) error {
	return n.do(ctx, "SENTINEL", "DEBUG", "info-period", 500, "publish-period", 200, "ask-period", 200,
		"tilt-trigger", 20_000, "tilt-period", 1000, "min-link-reconnect-period", 500).Err()
}

func (s *RedisSentinel) acquainted(ctx context.Context) error {
	for _, w := range s.sentinels {
		reply, err := w.do(ctx, "SENTINEL", "MASTER", masterName).Result()
		if err != nil {
			return err
		}
		facts, _ := reply.(map[any]any)
		if facts["num-slaves"] != "2" || facts["num-other-sentinels"] != "2" || facts["flags"] != "master" {
			return fmt.Errorf("%s knows %v replicas, %v other sentinels, flags %v",
				w.Addr(), facts["num-slaves"], facts["num-other-sentinels"], facts["flags"])
		}
	}
	return nil
}

// Nodes are the three servers; the first began as master.
func (s *RedisSentinel) Nodes() []*Node { return slices.Clone(s.nodes) }

// Sentinels are the three watchers.
func (s *RedisSentinel) Sentinels() []*Node { return slices.Clone(s.sentinels) }

// Master is the master that the first running Sentinel names; it may be dead
// already. nil: none answers.
func (s *RedisSentinel) Master() *Node {
	for _, w := range s.sentinels {
		if !w.Running() {
			continue
		}
		if n := s.named(context.Background(), w); n != nil {
			return n
		}
	}
	return nil
}

func (s *RedisSentinel) named(ctx context.Context, w *Node) *Node {
	addr, err := w.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	if err != nil || len(addr) != 2 {
		return nil
	}
	i := slices.IndexFunc(s.nodes, func(n *Node) bool { return fmt.Sprint(n.port) == addr[1] })
	if i < 0 {
		return nil
	}
	return s.nodes[i]
}

// Replicas are the running nodes that say they are replicas.
func (s *RedisSentinel) Replicas() []*Node {
	return slices.DeleteFunc(s.Nodes(), func(n *Node) bool { return n.role(context.Background()) != replicaRole })
}

// Options are for redis.NewFailoverClient; they do nothing behind the test's
// back, as Node.Options.
func (s *RedisSentinel) Options() *redis.FailoverOptions {
	o := &redis.FailoverOptions{
		MasterName: masterName, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		DisableIdentity: true,
	}
	for _, w := range s.sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, w.Addr())
	}
	return o
}

// Client is a failover client with Options, closed when the test ends.
func (s *RedisSentinel) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closed(t, redis.NewFailoverClient(s.Options()))
}

// WaitFailover returns the master after old, when every running Sentinel names
// it and the other running replicas follow it, but for one whose link is cut.
func (s *RedisSentinel) WaitFailover(t testing.TB, old *Node) *Node {
	t.Helper()
	var heir *Node
	wait(t, "a master after "+old.Addr(), func() (err error) {
		heir, err = s.heir(t.Context(), old)
		return err
	})
	return heir
}

func (s *RedisSentinel) heir(ctx context.Context, old *Node) (*Node, error) {
	heir := s.Master()
	if heir == nil || heir == old || heir.role(ctx) != masterRole {
		return nil, errors.New("no new master yet")
	}
	for _, w := range s.sentinels {
		if w.Running() && s.named(ctx, w) != heir {
			return nil, fmt.Errorf("sentinel %s names another one", w.Addr())
		}
	}
	for _, n := range s.nodes {
		if n == old || n == heir || !n.Running() || n.group.isCut(n) {
			continue
		}
		if err := n.synced(ctx); err != nil {
			return nil, err
		}
	}
	return heir, nil
}
