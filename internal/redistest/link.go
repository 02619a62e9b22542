package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Each node of a group dials its master as an ACL user of its own, so that one
// link can be cut at the master while both processes go on and stay members of
// their cluster.
const linkPrefix, linkPassword = "link-", "link"

// group is a set of nodes that replicate each other.
type group struct {
	nodes []*Node // fixed before the first start

	mu  sync.Mutex
	cut map[*Node]bool
}

func (n *Node) link() string { return fmt.Sprint(linkPrefix, n.port) }

// users are the settings of all links as they are now.
func (g *group) users() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for _, n := range g.nodes {
		state := "on"
		if g.cut[n] {
			state = "off"
		}
		lines = append(lines, fmt.Sprintf("user %s %s >%s +ping +psync +replconf", n.link(), state, linkPassword))
	}
	return lines
}

func (g *group) isCut(n *Node) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut[n]
}

// Replicated starts a master and a replica without a Sentinel, and returns when
// the replica is in sync.
func Replicated(t testing.TB, args ...string) (master, replica *Node) {
	t.Helper()
	g := &group{}
	master, replica = newNode(t, plain, g, args), newNode(t, plain, g, args)
	replica.extra = []string{fmt.Sprint("replicaof 127.0.0.1 ", master.port)}
	startAll(t, master, replica)
	WaitReplica(t, replica)
	return master, replica
}

// CutReplication cuts the link of a replica to its master, for good until heal
// is called: from here on, writes that the master acknowledges are not on the
// replica. Both go on answering, and vote and can be promoted.
//
// The master switches the replica's ACL user off and closes its connection; the
// replica dials again and again, and is refused. All running nodes of the group
// do so, and those that are started later, so the link stays cut over a
// failover too. To the master it is a closed link, not a silent one: for that,
// Stop the replica.
//
// heal may be called more than once; it does not wait (WaitReplica does). It
// must be called from the test's own goroutine.
func CutReplication(t testing.TB, replica *Node) (heal func()) {
	t.Helper()
	if err := replica.group.setLink(t.Context(), replica, false); err != nil {
		t.Fatalf("redistest: cut replication: %v", err)
	}
	return func() {
		t.Helper()
		if err := replica.group.setLink(t.Context(), replica, true); err != nil {
			t.Fatalf("redistest: heal replication: %v", err)
		}
	}
}

func (g *group) setLink(ctx context.Context, replica *Node, on bool) error {
	g.mu.Lock()
	if g.cut == nil {
		g.cut = map[*Node]bool{}
	}
	g.cut[replica] = !on
	g.mu.Unlock()
	state := map[bool]string{true: "on", false: "off"}[on]
	for _, n := range g.nodes {
		if n == replica || !n.Running() {
			continue
		}
		if err := n.do(ctx, "ACL", "SETUSER", replica.link(), state).Err(); err != nil {
			return err
		}
		if on {
			continue
		}
		if err := n.do(ctx, "CLIENT", "KILL", "USER", replica.link()).Err(); err != nil {
			return err
		}
	}
	return nil
}

// WaitReplica returns when the replica has everything that its master had
// written when it was called.
func WaitReplica(t testing.TB, replica *Node) {
	t.Helper()
	wait(t, "a replica in sync", func() error { return replica.synced(t.Context()) })
}

// synced compares offsets, because a link that is up may still lag.
func (n *Node) synced(ctx context.Context) error {
	role, err := n.do(ctx, "ROLE").Slice()
	if err != nil {
		return err
	}
	if len(role) != 5 || role[0] != "slave" || role[3] != "connected" {
		return fmt.Errorf("%s is %v", n.Addr(), role)
	}
	port, _ := role[2].(int64)
	i := slices.IndexFunc(n.group.nodes, func(m *Node) bool { return int64(m.port) == port })
	if i < 0 {
		return fmt.Errorf("%s follows port %d, which is no node of its group", n.Addr(), port)
	}
	master, err := n.group.nodes[i].do(ctx, "ROLE").Slice()
	if err != nil {
		return err
	}
	if len(master) != 3 || master[0] != "master" {
		return fmt.Errorf("%s is %v", n.group.nodes[i].Addr(), master)
	}
	// The replica is asked again, so a master that is written to all the time
	// does not run ahead for ever.
	info, err := n.do(ctx, "INFO", "replication").Text()
	if err != nil {
		return err
	}
	at := field(info, "slave_repl_offset")
	if want, _ := master[1].(int64); atoi(at) < want {
		return fmt.Errorf("%s is at %s of %d", n.Addr(), at, want)
	}
	return nil
}

// field is a value of INFO or CLUSTER INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
