package redistest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAClusterStartsFastWithEvenSlots(t *testing.T) {
	start := time.Now()
	c := Cluster(t, 3, 1)
	took := time.Since(start)
	t.Logf("start: %d ms", took.Milliseconds())
	if took > 6*time.Second {
		t.Errorf("took %v", took)
	}
	if len(c.Masters()) != 3 || len(c.Replicas()) != 3 || len(c.Addrs()) != 6 {
		t.Fatalf("%d masters, %d replicas", len(c.Masters()), len(c.Replicas()))
	}
	count := map[*Node]int{}
	owners, err := c.Nodes()[0].owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		count[c.byPort(o.port)] += o.to - o.from + 1
	}
	for _, m := range c.Masters() {
		if n := count[m]; n != 5461 && n != 5462 {
			t.Errorf("%s has %d slots", m.Addr(), n)
		}
		if r := c.ReplicaOf(m); r == nil || c.ReplicaOf(r) != nil {
			t.Errorf("%s has not one replica", m.Addr())
		}
	}
}

func TestAReplicaTakesOverFromAKilledMaster(t *testing.T) {
	c := Cluster(t, 3, 1)
	client := c.Client(t, nil)
	old, slot := c.MasterOfKey("a")
	replica := c.ReplicaOf(old)
	if err := client.Set(t.Context(), "a", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	WaitReplica(t, replica)
	start := time.Now()
	old.Kill()
	heir := c.WaitFailover(t, old)
	t.Logf("failover: %d ms", time.Since(start).Milliseconds())
	if heir != replica || c.MasterOf(slot) != heir || len(c.Masters()) != 3 || len(c.Replicas()) != 2 {
		t.Fatal("the replica has not taken over")
	}
	wait(t, "the client to follow", func() error {
		client.ReloadState(t.Context())
		return client.Get(t.Context(), "a").Err()
	})
	old.Start()
	c.WaitSettled(t)
	if c.ReplicaOf(heir) != old {
		t.Fatal("the old master does not follow the new one")
	}
}

func TestASlotMovesWithItsKeysAndHalfWayClientsAreAsked(t *testing.T) {
	c := Cluster(t, 3, 0)
	client := c.Client(t, nil)
	from, slot := c.MasterOfKey("{s}")
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[1]
	}
	for i := range 10 {
		if err := client.Set(t.Context(), fmt.Sprintf("{s}%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	called := 0
	c.MigrateSlot(t, slot, from, to, func() {
		called++
		direct := from.Client(t)
		asked := 0
		for i := range 10 {
			err := direct.Get(t.Context(), fmt.Sprintf("{s}%d", i)).Err()
			if _, ask := redis.IsAskError(err); ask {
				asked++
			} else if err != nil {
				t.Errorf("half way: %v", err)
			}
		}
		if asked != 5 {
			t.Errorf("%d of 10 keys had moved half way", asked)
		}
		if err := client.Set(t.Context(), "{s}new", 1, 0).Err(); err != nil {
			t.Errorf("a client of the cluster half way: %v", err)
		}
	})
	if called != 1 || c.MasterOf(slot) != to {
		t.Fatalf("between ran %d times, the slot is at %v", called, c.MasterOf(slot).Addr())
	}
	for _, key := range []string{"{s}0", "{s}9", "{s}new"} {
		if err := to.Client(t).Get(t.Context(), key).Err(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := from.Client(t).Get(t.Context(), "{s}0").Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("the old master says %v", err)
	}
}

func TestAllTrafficOfAClusterRunsThroughItsProxies(t *testing.T) {
	c := Cluster(t, 3, 0)
	p := ProxyCluster(t, c)
	client := p.Client(t, nil)
	direct := c.Client(t, nil)
	keys := []string{"{a}", "{b}", "{c}", "{d}", "{e}", "{f}"}
	for _, key := range keys {
		if err := client.Eval(t.Context(), add, []string{key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	sum := int64(0)
	for _, n := range c.Masters() {
		sum += p.CountOf(n, "EVAL")
	}
	if p.Count("EVAL") != int64(len(keys)) || sum != p.Count("EVAL") {
		t.Fatalf("%d EVAL for %d calls", p.Count("EVAL"), len(keys))
	}
	// MaxRedirects runs scripts again whatever MaxRetries says: the reason why
	// stock travels as a command that asks for no retry.
	fault := p.DropReply("EVAL", 1)
	if err := client.Do(t.Context(), "INCR", "{b}").Err(); err != nil {
		t.Fatalf("another command: %v", err)
	}
	_ = client.Eval(t.Context(), add, []string{"{a}"}).Err()
	if got, err := direct.Get(t.Context(), "{a}").Int(); err != nil || got != 3 || fault.Hits() != 1 {
		t.Fatalf("{a} is %d (%v) after %d hits, want 1 + the lost one + its repeat", got, err, fault.Hits())
	}
	p.Refuse()
	wait(t, "a refused client", func() error {
		if client.Get(t.Context(), "{a}").Err() == nil {
			return errors.New("it got through")
		}
		return nil
	})
	p.Heal()
	wait(t, "a healed client", func() error { return client.Get(t.Context(), "{a}").Err() })
}
