package redistest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// nodeTimeout is after how long a silent cluster node, or a master watched by
// Sentinel, counts as dead.
const nodeTimeout = time.Second

func (n *Node) settings() string { return filepath.Join(n.dir, "redis.conf") }

// writeSettings writes the file before the first start. Later the file belongs
// to the server (CONFIG REWRITE, by Sentinel too); only the users of the
// replication links are set to what they are now.
func (n *Node) writeSettings() error {
	old, err := os.ReadFile(n.settings())
	if errors.Is(err, fs.ErrNotExist) {
		return n.save(append(n.settingsOf(), n.extra...))
	}
	if err != nil {
		return err
	}
	var all []string
	for line := range strings.Lines(string(old)) {
		if !strings.HasPrefix(line, "user "+linkPrefix) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return n.save(all)
}

func (n *Node) save(lines []string) error {
	if n.kind != sentinel { // which knows no replication
		lines = append(lines, n.group.users()...)
	}
	return os.WriteFile(n.settings(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (n *Node) settingsOf() []string {
	lines := []string{"bind 127.0.0.1", "protected-mode no"}
	if n.kind == sentinel {
		return append(lines, fmt.Sprint("port ", n.port))
	}
	lines = append(lines,
		"unixsocket "+n.Socket(), `save ""`, "appendonly yes", "enable-debug-command yes",
		// A replica syncs at once, and says so every second.
		"repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1",
		"masteruser "+n.link(), "masterauth "+linkPassword)
	switch n.kind {
	case secured:
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", n.port), "tls-auth-clients no",
			"tls-cert-file "+filepath.Join(n.dir, certFile), "tls-key-file "+filepath.Join(n.dir, keyFile),
			"tls-ca-cert-file "+filepath.Join(n.dir, caFile))
	case clustered:
		lines = append(lines, fmt.Sprint("port ", n.port), fmt.Sprint("cluster-port ", n.bus), "cluster-enabled yes",
			fmt.Sprint("cluster-node-timeout ", nodeTimeout.Milliseconds()), "cluster-require-full-coverage no",
			// A replica stays with its master, and takes over however old its data are.
			"cluster-allow-replica-migration no", "cluster-replica-validity-factor 0")
	default:
		lines = append(lines, fmt.Sprint("port ", n.port))
	}
	return lines
}
