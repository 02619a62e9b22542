package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinelPromotesAReplicaAndTheClientFollows(t *testing.T) {
	start := time.Now()
	s := Sentinel(t)
	t.Logf("start: %d ms", time.Since(start).Milliseconds())
	c := s.Client(t)
	old := s.Master()
	if err := c.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, replica := range s.Replicas() {
		WaitReplica(t, replica)
	}
	start = time.Now()
	old.Kill()
	heir := s.WaitFailover(t, old)
	t.Logf("failover: %d ms", time.Since(start).Milliseconds())
	if heir == old || s.Master() != heir {
		t.Fatal("nobody was promoted")
	}
	wait(t, "the client to follow", func() error { return c.Set(t.Context(), "b", "2", 0).Err() })
	if got, err := heir.Client(t).MGet(t.Context(), "a", "b").Result(); err != nil || got[0] != "1" || got[1] != "2" {
		t.Fatalf("the new master holds %v (%v)", got, err)
	}
	old.Start()
	wait(t, "a demoted master", func() error { return old.synced(t.Context()) })
	if got, err := old.Client(t).Get(t.Context(), "b").Result(); err != nil || got != "2" {
		t.Fatalf("the old master is in sync, but holds %q (%v)", got, err)
	}
}

func TestAFailoverClientRunsThroughProxies(t *testing.T) {
	s := Sentinel(t)
	p := ProxyNodes(t, s.Nodes()...)
	o := s.Options()
	o.Dialer = p.Dialer
	c := closed(t, redis.NewFailoverClient(o))
	fault := p.DropReply("INCR", 1)
	if err := c.Incr(t.Context(), "count").Err(); !hungUp(err) {
		t.Fatalf("got %v", err)
	}
	if got, err := s.Master().Client(t).Get(t.Context(), "count").Int(); err != nil || got != 1 || fault.Hits() != 1 {
		t.Fatalf("executed %d times (%v)", got, err)
	}
	if p.CountOf(s.Master(), "INCR") != 1 || p.Count("INCR") != 1 {
		t.Fatalf("counted %v", p.Of(s.Master()).Counts())
	}
}
