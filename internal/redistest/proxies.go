package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Proxies stands in front of several nodes, one proxy each. Its Faults count
// over all of them: DropReply("EVALSHA", 1) harms the next EVALSHA, wherever it
// goes. Faults of a single proxy (Of) come first.
type Proxies struct {
	Faults
	proxies map[string]*Proxy // by the node's own address
	nodes   []*Node
	cluster *RedisCluster // nil: no cluster
}

// ProxyNodes puts a proxy in front of each node. The nodes go on announcing
// their own addresses; clients come through the proxies by Dialer.
func ProxyNodes(t testing.TB, nodes ...*Node) *Proxies {
	t.Helper()
	p := &Proxies{proxies: map[string]*Proxy{}, nodes: nodes}
	for _, n := range nodes {
		p.proxies[n.Addr()] = newProxy(t, n.Addr(), &p.Faults)
	}
	return p
}

// ProxyCluster is ProxyNodes for all nodes of a cluster.
func ProxyCluster(t testing.TB, c *RedisCluster) *Proxies {
	t.Helper()
	p := ProxyNodes(t, c.nodes...)
	p.cluster = c
	return p
}

// Of is the proxy in front of a node.
func (p *Proxies) Of(n *Node) *Proxy { return p.proxies[n.Addr()] }

// Dialer is for the Dialer of redis.Options, ClusterOptions or FailoverOptions:
// who dials a node gets its proxy. Other addresses (Sentinels) are dialled as
// they are.
func (p *Proxies) Dialer(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy := p.proxies[addr]; proxy != nil {
		addr = proxy.Addr()
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, network, addr)
}

// Client is RedisCluster.Client through the proxies. It is for ProxyCluster.
func (p *Proxies) Client(t testing.TB, change func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	return p.cluster.Client(t, func(o *redis.ClusterOptions) {
		o.Dialer = p.Dialer
		if change != nil {
			change(o)
		}
	})
}

// Count is Proxy.Count over all nodes.
func (p *Proxies) Count(name string) int64 {
	sum := int64(0)
	for _, proxy := range p.proxies {
		sum += proxy.Count(name)
	}
	return sum
}

// CountOf is Proxy.Count for one node.
func (p *Proxies) CountOf(n *Node, name string) int64 { return p.Of(n).Count(name) }

// Reset is Proxy.Reset for all nodes.
func (p *Proxies) Reset() {
	for _, proxy := range p.proxies {
		proxy.Reset()
	}
}

// DropAll is Proxy.DropAll for all nodes.
func (p *Proxies) DropAll() {
	for _, proxy := range p.proxies {
		proxy.DropAll()
	}
}

// Refuse is Proxy.Refuse for all nodes.
func (p *Proxies) Refuse() {
	for _, proxy := range p.proxies {
		proxy.Refuse()
	}
}

// Heal is Proxy.Heal for all nodes, and clears the shared faults.
func (p *Proxies) Heal() {
	p.ClearFaults()
	for _, proxy := range p.proxies {
		proxy.Heal()
	}
}
