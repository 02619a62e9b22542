package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// RedisCluster is a running cluster. Its shards (a master and its replicas) keep
// their nodes, whoever is master among them.
type RedisCluster struct {
	t      testing.TB
	nodes  []*Node
	shards [][]*Node
	ids    map[*Node]string
}

// Cluster starts masters with replicas of their own each, and returns when
// every node calls the cluster ok and every replica is in sync. Slots are dealt
// evenly, in the order of Nodes. The node timeout is 1 s, slots without a master
// do not stop the others, and a replica takes over however old its data are;
// args override that.
func Cluster(t testing.TB, masters, replicas int, args ...string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{t: t, ids: map[*Node]string{}, shards: make([][]*Node, masters)}
	g := &group{}
	for i := range masters * (1 + replicas) {
		n := newNode(t, clustered, g, args)
		c.shards[i%masters] = append(c.shards[i%masters], n)
	}
	c.nodes = g.nodes
	startAll(t, c.nodes...)
	if err := c.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.WaitSettled(t)
	return c
}

// join makes one cluster of nodes that do not know each other yet.
func (c *RedisCluster) join(ctx context.Context) error {
	for i, n := range c.nodes {
		id, err := n.do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			return err
		}
		c.ids[n] = id
		// Epochs that differ from the start spare the nodes a quarrel about them.
		if err := n.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	for i, shard := range c.shards {
		from, to := i*slots/len(c.shards), (i+1)*slots/len(c.shards)-1
		if err := shard[0].do(ctx, "CLUSTER", "ADDSLOTSRANGE", from, to).Err(); err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		for _, m := range c.nodes[:i] {
			if err := n.do(ctx, "CLUSTER", "MEET", "127.0.0.1", m.port, m.bus).Err(); err != nil {
				return err
			}
		}
	}
	for _, shard := range c.shards {
		for _, n := range shard[1:] {
			err := until(ctx, "a replica that knows its master", func() error {
				return n.do(ctx, "CLUSTER", "REPLICATE", c.ids[shard[0]]).Err()
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Nodes are all nodes, dead or alive: first those that began as masters.
func (c *RedisCluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Addrs are the addresses of Nodes.
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Client is a cluster client that does nothing behind the test's back, as
// Node.Options; change, which may be nil, has the last word. It is closed when
// the test ends.
func (c *RedisCluster) Client(t testing.TB, change func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{
		Addrs: c.Addrs(), MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		DisableIdentity: true, MaintNotificationsConfig: noMaintenance(),
	}
	if change != nil {
		change(o)
	}
	return closed(t, redis.NewClusterClient(o))
}

// WaitSettled returns when all running nodes call the cluster ok, agree who
// serves each slot, and every running replica is in sync with its master, but
// for one whose link is cut.
func (c *RedisCluster) WaitSettled(t testing.TB) {
	t.Helper()
	wait(t, "a cluster that is ok everywhere", func() error { return c.settled(t.Context()) })
}

func (c *RedisCluster) settled(ctx context.Context) error {
	var first []owner
	for _, n := range c.running() {
		info, err := n.do(ctx, "CLUSTER", "INFO").Text()
		if err != nil {
			return err
		}
		if state := field(info, "cluster_state"); state != "ok" {
			return fmt.Errorf("%s says %s", n.Addr(), state)
		}
		owners, err := n.owners(ctx)
		if err != nil {
			return err
		}
		if first == nil {
			first = owners
		}
		if !slices.Equal(first, owners) {
			return errors.New("the nodes do not agree on the slots")
		}
		if n.role(ctx) == replicaRole && !n.group.isCut(n) {
			if err := n.synced(ctx); err != nil {
				return err
			}
		}
	}
	return c.replicasKnown(ctx)
}

// replicasKnown: each running node stands in the slot map that clients get.
func (c *RedisCluster) replicasKnown(ctx context.Context) error {
	for _, n := range c.running() {
		view, err := n.view(ctx)
		if err != nil {
			return err
		}
		for _, m := range c.running() {
			if !slices.ContainsFunc(view, func(s redis.ClusterSlot) bool { return m.in(s) }) && m.role(ctx) == replicaRole {
				return fmt.Errorf("%s does not show the replica %s", n.Addr(), m.Addr())
			}
		}
	}
	return nil
}

func (c *RedisCluster) running() []*Node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return !n.Running() })
}
