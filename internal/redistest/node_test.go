package redistest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAKilledNodeComesBackWithItsDataAndAddress(t *testing.T) {
	n := Single(t, "--appendfsync", "always")
	c := n.Client(t)
	if err := c.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	addr := n.Addr()
	n.Kill()
	if err := c.Get(t.Context(), "a").Err(); err == nil || n.Running() {
		t.Fatalf("a dead node answers: %v", err)
	}
	n.Start()
	if got, err := c.Get(t.Context(), "a").Result(); err != nil || got != "1" || n.Addr() != addr {
		t.Fatalf("after the start: %q %v", got, err)
	}
}

func TestTheTestsArgumentsWin(t *testing.T) {
	n := Single(t, "--appendonly", "no", "--maxmemory", "3mb")
	c := n.Client(t)
	for name, want := range map[string]string{"appendonly": "no", "maxmemory": "3145728", "save": ""} {
		if got, err := c.ConfigGet(t.Context(), name).Result(); err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q (%v)", name, got[name], want, err)
		}
	}
}

func TestAStoppedNodeIsSilentUntilItGoesOn(t *testing.T) {
	n := Single(t)
	c := n.Client(t)
	n.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Set(ctx, "a", 1, 0).Err(); !timedOut(err) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stopped: %v", err)
	}
	n.Cont()
	if err := c.Set(t.Context(), "a", 2, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAUserMayDoWhatItsRulesSay(t *testing.T) {
	n := Single(t)
	n.WithUser(t, "teller", "secret", "~stock:*", "+get", "+hello")
	o := n.Options()
	o.Username, o.Password = "teller", "secret"
	c := closed(t, redis.NewClient(o))
	if err := c.Get(t.Context(), "stock:1").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("allowed: %v", err)
	}
	if err := c.Get(t.Context(), "other").Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Fatalf("another key: %v", err)
	}
}

func TestATLSNodeIsTrustedByItsCAAlone(t *testing.T) {
	n := TLS(t)
	if err := n.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	o := n.Options()
	o.TLSConfig.RootCAs = nil
	if err := closed(t, redis.NewClient(o)).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("without the CA: %v", err)
	}
	if err := closed(t, redis.NewClient(clientOptions(n.Addr()))).Ping(t.Context()).Err(); err == nil {
		t.Fatal("the port speaks without TLS")
	}
	if pem, err := os.ReadFile(n.CAFile()); err != nil || !strings.Contains(string(pem), "CERTIFICATE") {
		t.Fatalf("the CA file: %v", err)
	}
	n.Kill()
	n.Start()
	if err := n.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}
