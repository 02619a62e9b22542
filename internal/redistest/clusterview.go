package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// owner is a range of slots and the port of its master.
type owner struct{ from, to, port int }

const (
	masterRole  = "master"
	replicaRole = "slave"
)

// role is what the node says of itself, "" if it does not answer.
func (n *Node) role(ctx context.Context) string {
	if !n.Running() {
		return ""
	}
	role, err := n.do(ctx, "ROLE").Slice()
	if err != nil || len(role) == 0 {
		return ""
	}
	name, _ := role[0].(string)
	return name
}

// view is the slot map as this node tells it to clients.
func (n *Node) view(ctx context.Context) ([]redis.ClusterSlot, error) {
	o := clientOptions(n.Socket())
	o.Network, o.PoolSize = "unix", 1
	client := redis.NewClient(o)
	defer client.Close()
	return client.ClusterSlots(ctx).Result()
}

func (n *Node) owners(ctx context.Context) ([]owner, error) {
	view, err := n.view(ctx)
	if err != nil {
		return nil, err
	}
	var owners []owner
	for _, s := range view {
		for _, m := range n.group.nodes {
			if m.Addr() == s.Nodes[0].Addr {
				owners = append(owners, owner{s.Start, s.End, m.port})
			}
		}
	}
	slices.SortFunc(owners, func(a, b owner) int { return a.from - b.from })
	return owners, nil
}

func (n *Node) in(s redis.ClusterSlot) bool {
	return slices.ContainsFunc(s.Nodes, func(m redis.ClusterNode) bool { return m.Addr == n.Addr() })
}

// Masters are the running nodes that say they are masters and have slots, in
// the order of Nodes.
func (c *RedisCluster) Masters() []*Node {
	var masters []*Node
	for _, n := range c.running() {
		owners, err := n.owners(context.Background())
		if err == nil && slices.ContainsFunc(owners, func(o owner) bool { return o.port == n.port }) {
			masters = append(masters, n)
		}
	}
	return masters
}

// Replicas are the running nodes that say they are replicas.
func (c *RedisCluster) Replicas() []*Node {
	return slices.DeleteFunc(c.running(), func(n *Node) bool { return n.role(context.Background()) != replicaRole })
}

// MasterOf is the node that serves the slot, by the map of the first running
// node that answers; it may be dead already. nil: none.
func (c *RedisCluster) MasterOf(slot int) *Node {
	for _, n := range c.running() {
		owners, err := n.owners(context.Background())
		if err != nil {
			continue
		}
		for _, o := range owners {
			if o.from <= slot && slot <= o.to {
				return c.byPort(o.port)
			}
		}
		return nil
	}
	return nil
}

// MasterOfKey is MasterOf for the slot of a key, and that slot.
func (c *RedisCluster) MasterOfKey(key string) (n *Node, slot int) {
	for _, n := range c.running() {
		if slot, err := n.do(context.Background(), "CLUSTER", "KEYSLOT", key).Int(); err == nil {
			return c.MasterOf(slot), slot
		}
	}
	return nil, 0
}

func (c *RedisCluster) byPort(port int) *Node {
	i := slices.IndexFunc(c.nodes, func(n *Node) bool { return n.port == port })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// ReplicaOf is a running replica of the shard that the node belongs to; nil if
// there is none.
func (c *RedisCluster) ReplicaOf(n *Node) *Node {
	for _, m := range c.shardOf(n) {
		if m != n && m.role(context.Background()) == replicaRole {
			return m
		}
	}
	return nil
}

func (c *RedisCluster) shardOf(n *Node) []*Node {
	i := slices.IndexFunc(c.shards, func(shard []*Node) bool { return slices.Contains(shard, n) })
	if i < 0 {
		return nil
	}
	return c.shards[i]
}

// WaitFailover returns the node that has taken over from old, when every
// running node knows it and calls the cluster ok. old must be down, stopped or
// demoted, else there is nothing to wait for. A node whose link is cut may take
// over too.
func (c *RedisCluster) WaitFailover(t testing.TB, old *Node) *Node {
	t.Helper()
	var heir *Node
	wait(t, "a replica that takes over from "+old.Addr(), func() (err error) {
		heir, err = c.heir(t.Context(), old)
		return err
	})
	return heir
}

func (c *RedisCluster) heir(ctx context.Context, old *Node) (*Node, error) {
	var heir *Node
	for _, n := range c.shardOf(old) {
		if n != old && n.role(ctx) == masterRole {
			heir = n
		}
	}
	if heir == nil {
		return nil, errors.New("no replica is master yet")
	}
	for _, n := range c.running() {
		if n == old {
			continue
		}
		info, err := n.do(ctx, "CLUSTER", "INFO").Text()
		if err != nil {
			return nil, err
		}
		owners, err := n.owners(ctx)
		if err != nil {
			return nil, err
		}
		knows := func(m *Node) bool { return slices.ContainsFunc(owners, func(o owner) bool { return o.port == m.port }) }
		if !knows(heir) || knows(old) || field(info, "cluster_state") != "ok" {
			return nil, fmt.Errorf("%s does not know the new master yet", n.Addr())
		}
	}
	return heir, nil
}
