package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Node is one Redis process. It keeps its port and its folder when it is killed
// and started again. Safe for use by several goroutines.
type Node struct {
	t      testing.TB
	binary string
	dir    string
	port   int
	bus    int // of a cluster node
	kind   kind
	args   []string // of the test; they win
	extra  []string // lines of the settings
	group  *group

	mu      sync.Mutex
	process *process // nil while it is down
	stopped bool
}

type kind int

const (
	plain kind = iota
	clustered
	secured
	sentinel
)

// Single starts one server on a TCP port of the loopback and on a unix socket,
// with an append-only file (appendfsync everysec). args are further arguments
// of redis-server, such as "--appendfsync", "always"; they win over the kit's.
func Single(t testing.TB, args ...string) *Node {
	t.Helper()
	n := newNode(t, plain, &group{}, args)
	startAll(t, n)
	return n
}

// newNode reserves what a node needs. Its settings are written by the first
// start, when its group is whole.
func newNode(t testing.TB, k kind, g *group, args []string) *Node {
	t.Helper()
	n := &Node{t: t, binary: server(t), kind: k, args: args, group: g}
	n.port = reservePort(t)
	if k == clustered {
		n.bus = reservePort(t)
	}
	dir, err := os.MkdirTemp("", "wr") // short: a socket's path ends at 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	n.dir = dir
	t.Cleanup(func() {
		n.Kill()
		_ = os.RemoveAll(dir)
	})
	g.nodes = append(g.nodes, n)
	return n
}

// startAll starts the nodes beside each other and waits until all answer.
func startAll(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		if err := n.await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Addr is host:port on the loopback.
func (n *Node) Addr() string { return loopback(n.port) }

// Socket is the path of the unix socket. A sentinel has none.
func (n *Node) Socket() string { return filepath.Join(n.dir, "s") }

// Dir is the working folder, with the append-only file and the log.
func (n *Node) Dir() string { return n.dir }

// Log is what the server has written to its log so far.
func (n *Node) Log() string {
	log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	return string(log)
}

// Start runs the server again after Kill, on the same port and folder, and
// returns when it has loaded its data. On a running node it does nothing.
func (n *Node) Start() {
	n.t.Helper()
	err := n.launch()
	if err == nil {
		err = n.await(context.Background())
	}
	if err != nil {
		n.t.Errorf("redistest: start: %v", err)
	}
}

// Kill ends the process by SIGKILL, also a stopped one, and returns when it is
// gone.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		n.process.kill()
	}
	n.process, n.stopped = nil, false
}

// Stop freezes the process by SIGSTOP: it takes connections, and never answers.
func (n *Node) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return
	}
	if err := n.process.stop(); err != nil {
		n.t.Errorf("redistest: stop: %v", err)
	}
	n.stopped = true
}

// Cont lets a stopped process go on.
func (n *Node) Cont() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		_ = n.process.Cmd.Process.Signal(syscall.SIGCONT)
	}
	n.stopped = false
}

// Running tells whether the process lives and is not stopped.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil && !n.process.Ended() && !n.stopped
}

func (n *Node) launch() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && !n.process.Ended() {
		return nil
	}
	if err := n.writeSettings(); err != nil {
		return err
	}
	args := append([]string{n.settings()}, n.args...)
	if n.kind == sentinel {
		args = append(args, "--sentinel")
	}
	p, err := startProcess(n.dir, n.binary, args)
	if err != nil {
		return err
	}
	n.process = p
	return nil
}

func (n *Node) await(ctx context.Context) error {
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	gone := errors.New("it has ended")
	var last error
	err := until(ctx, "a server at "+n.Addr(), func() error {
		if p == nil || p.Ended() {
			last = gone
			return nil
		}
		last = n.ping()
		return last
	})
	if err == nil {
		err = last
	}
	if err != nil {
		log := strings.Split(strings.TrimSpace(n.Log()), "\n")
		return fmt.Errorf("%w; the end of its log:\n%s", err, strings.Join(log[max(0, len(log)-15):], "\n"))
	}
	return nil
}

// ping asks by hand, because a client pool that meets refused connections
// starts to sleep between its attempts.
func (n *Node) ping() error {
	network, addr := "unix", n.Socket()
	if n.kind == sentinel {
		network, addr = "tcp", n.Addr()
	}
	conn, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	// NOAUTH and MASTERDOWN are answers of a server that has loaded its data.
	if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") || strings.HasPrefix(line, "-MASTERDOWN") {
		return nil
	}
	return errors.New(strings.TrimSpace(line))
}
