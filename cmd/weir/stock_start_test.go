package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// refused checks that no program starts, and that each of the words is said.
func refused(t *testing.T, c Config, words ...string) {
	t.Helper()
	why := whyNot(t, c, nil)
	if why == "" {
		t.Fatalf("it started; it must say %q", words)
	}
	for _, w := range words {
		if !strings.Contains(why, w) {
			t.Errorf("want %q, got: %s", w, why)
		}
	}
}

func set(t *testing.T, rdb *redis.Client, name, value string) {
	t.Helper()
	if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStock_AClusterThatIsNotWholeIsRefused(t *testing.T) {
	r := redistest.Cluster(t, 3, 0, "--cluster-require-full-coverage", "yes")
	t.Run("named by one address", func(t *testing.T) {
		c := onCluster(t, r)
		c.Redis.Stock.Addresses = c.Redis.Stock.Addresses[:1]
		refused(t, c, "redis.stock.addresses", "Cluster", "two or more")
	})
	t.Run("one master evicts keys", func(t *testing.T) {
		last := r.Nodes()[2]
		set(t, last.Client(t), "maxmemory-policy", "allkeys-lru")
		refused(t, onCluster(t, r), "noeviction", last.Addr())
		set(t, last.Client(t), "maxmemory-policy", "noeviction")
	})
	t.Run("more replicas are waited for than there are", func(t *testing.T) {
		c := onCluster(t, r)
		c.Stock.WaitReplicas = 1
		refused(t, c, "stock.wait_replicas (1)", "it has 0 replicas")
	})
	t.Run("a slot is nobody's", func(t *testing.T) {
		for _, n := range r.Nodes() {
			_ = n.Client(t).Do(t.Context(), "CLUSTER", "DELSLOTS", 7).Err() // only its owner can
		}
		eventually(t, 20*time.Second, "the cluster sees it", func() bool {
			return strings.Contains(whyNot(t, onCluster(t, r), nil), `the cluster's state is "fail", right is ok`)
		})
		refused(t, onCluster(t, r), "redis-cli --cluster check")
	})
}

func TestStock_AMasterThatWouldGoOnWithoutItsReplicasIsRefused(t *testing.T) {
	master, replica := redistest.Replicated(t)
	rdb := master.Client(t)
	refused(t, onNode(t, master), "min-replicas-to-write is 0", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 10")
	set(t, rdb, "min-replicas-to-write", "1")
	set(t, rdb, "min-replicas-max-lag", "600")
	refused(t, onNode(t, master), "min-replicas-max-lag is 600")
	set(t, rdb, "min-replicas-max-lag", "10")
	refused(t, onNode(t, replica), "this server is a slave", "its master "+master.Addr())
	c := onNode(t, master)
	c.Stock.WaitReplicas = 2
	refused(t, c, "it has 1 replica,", "stock.wait_replicas (2)")
	set(t, rdb, "maxmemory-policy", "volatile-ttl")
	refused(t, onNode(t, master), "maxmemory-policy is volatile-ttl", "CONFIG SET maxmemory-policy noeviction")
	set(t, rdb, "maxmemory-policy", "noeviction")
	c.Stock.WaitReplicas, c.Stock.WaitTimeout = 1, 4*time.Second
	eventually(t, 10*time.Second, "the master counts its replica", func() bool { return rdb.Set(t.Context(), "-", 1, 0).Err() == nil })
	boot(t, c).sells("alice")
}

func TestStock_OverTLS(t *testing.T) {
	node := redistest.TLS(t)
	c := onNode(t, node.Node)
	c.Redis.Stock.TLS = true
	untrusted := "its certificate is not trusted, right is the authority that signed it, in ca_file"
	refused(t, c, "redis.stock ("+node.Addr()+")", untrusted) // by none that this host knows
	c.Redis.Stock.CAFile = redistest.TLS(t).CAFile()
	refused(t, c, untrusted)
	c.Redis.Stock.CAFile = filepath.Join(t.TempDir(), "none")
	refused(t, c, "redis.stock.ca_file")
	c.Redis.Stock.CAFile = node.CAFile()
	boot(t, c).sells("alice")
}

// rightsInFile are those that config.yaml says are enough.
func rightsInFile(t *testing.T) []string {
	t.Helper()
	src, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`# +ACL SETUSER weir on >PASSWORD (.*)\n +# +(.*)\n`).FindStringSubmatch(string(src))
	if m == nil {
		t.Fatal("config.yaml names no rights")
	}
	return strings.Fields(m[1] + " " + m[2])
}

// TestStock_AnACLUserWithTheRightsOfTheFileIsEnough: for a server with WAIT and
// for a cluster, which nobody needs the other rights of.
func TestStock_AnACLUserWithTheRightsOfTheFileIsEnough(t *testing.T) {
	master, _ := redistest.Replicated(t, careful()...)
	r := redistest.Cluster(t, 3, 0)
	waiting := onNode(t, master)
	waiting.Stock.WaitReplicas, waiting.Stock.WaitTimeout = 1, 4*time.Second
	for name, on := range map[string]struct {
		c     Config
		nodes []*redistest.Node
	}{"one server": {waiting, []*redistest.Node{master}}, "cluster": {onCluster(t, r), r.Nodes()}} {
		t.Run(name, func(t *testing.T) {
			for _, n := range on.nodes {
				n.WithUser(t, "weir", loud, rightsInFile(t)...)
			}
			on.c.Redis.Stock.Username = "weir"
			w, said := bootHeard(t, on.c, map[string]string{"WEIR_REDIS_PASSWORD": loud})
			w.sells("alice")
			ban(w, "user", "mallory")
			for _, verb := range []string{"level", "audit", "ledger", "pause", "resume", "cancel"} {
				if code, out := w.weirSays("sale", verb, "demo"); code != exitOK {
					t.Errorf("sale %s: %d %s", verb, code, out)
				}
			}
			w.stop()
			for _, n := range on.nodes {
				if denied := n.Client(t).ACLLog(t.Context(), 10).Val(); len(denied) > 0 || strings.Contains(said.String(), "NOPERM") {
					t.Errorf("denied: %+v\n%s", denied[0], said)
				}
			}
			if why := whyNot(t, on.c, map[string]string{"WEIR_REDIS_PASSWORD": loud + "?"}); !strings.Contains(why, "Redis refuses us: WRONGPASS") {
				t.Errorf("with a wrong password: %s", why)
			}
		})
	}
}
