package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
	"weir/internal/sampleshop"
	"weir/inventory"
)

const (
	rushBuyers = 300
	rushUnits  = 60
)

// forRush is a sale for a crowd. What is not stock lies on a server of its own, so
// that the shop forgets no order when the stock's master dies.
func forRush(t *testing.T, c Config) Config {
	other := redistest.Single(t)
	shared := c.Redis.Stock
	shared.Addresses, shared.Master = []string{other.Addr()}, ""
	c.Redis.Shared = &shared
	c.Redis.Stock.ReadTimeout = time.Second
	c.Captcha.Width, c.Captcha.Height, c.Captcha.PassTTL = 200, 60, time.Hour
	c.Limits.Upstream = SharedLimit{Per: time.Second, Concurrency: 4, Scope: "cluster", Size: 1, Mode: "enforce"}
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
	c.Sales[0].Total, c.Sales[0].Hold = rushUnits, 5*time.Second
	return c
}

// twoOn boots two replicas, with a shop that takes its time.
func twoOn(t *testing.T, c Config) (one, two *world) {
	t.Helper()
	other := c
	other.Data = t.TempDir()
	one, two = boot(t, c), boot(t, other)
	one.p.shop.Set(sampleshop.Switches{Slow: 150 * time.Millisecond})
	two.p.shop.Set(sampleshop.Switches{Slow: 150 * time.Millisecond})
	return one, two
}

// onePerMaster checks that each bucket lies on another master.
func onePerMaster(t *testing.T, w *world, r *redistest.RedisCluster) (slot int) {
	t.Helper()
	masters := map[*redistest.Node]bool{}
	buckets := w.invariant("demo").Buckets
	for _, b := range buckets {
		n, _ := r.MasterOfKey("{" + b.Tag + "}")
		masters[n] = true
	}
	if want := len(r.Masters()); len(buckets) != want || len(masters) != want {
		t.Fatalf("%d buckets on %d of %d masters", len(buckets), len(masters), want)
	}
	_, slot = r.MasterOfKey("{" + buckets[0].Tag + "}")
	return slot
}

// sellsAll checks the end of a rush: who was told that he won has his unit,
// as many as there are, one order each, and the program's own verbs say so.
func (r *rush) sellsAll(t *testing.T) {
	t.Helper()
	w := r.worlds[0]
	l := w.settled()
	if lost := r.missing(w); len(lost) > 0 {
		t.Errorf("%d units are not in the ledger whose buyers were told that they won: %v", len(lost), lost)
	}
	if l.Confirmed != rushUnits || l.Free != 0 || r.closed != 0 || len(r.won)+r.lost != rushBuyers {
		t.Errorf("%d sold, %d free; told: %d won, %d came too late, %d closed", l.Confirmed, l.Free, len(r.won), r.lost, r.closed)
	}
	states := w.states()
	orders := w.orders()
	for id, o := range orders {
		if states[o.Reservation] != inventory.Confirmed {
			t.Errorf("order %s: its reservation is %q", id, states[o.Reservation])
		}
	}
	if len(orders) != rushUnits {
		t.Errorf("the shop has %d orders", len(orders))
	}
	r.verbsAgree(t)
}

func (r *rush) verbsAgree(t *testing.T) {
	t.Helper()
	w := r.worlds[1]
	code, out := w.weirSays("sale", "audit", "demo")
	if code != exitOK || !strings.Contains(out, fmt.Sprintf("OK. %d units: 0 free, 0 reserved, %d confirmed, 0 on loan", rushUnits, rushUnits)) {
		t.Errorf("sale audit: %d %s", code, out)
	}
	code, out = w.weirSays("sale", "level", "demo")
	if buckets := len(w.invariant("demo").Buckets); code != exitOK || strings.Count(out, "\n") != 4+buckets {
		t.Errorf("sale level, of %d buckets: %d\n%s", buckets, code, out)
	}
	if code, out = w.weirSays("sale", "reconcile", "demo"); code != exitOK || !strings.Contains(out, "0 differences") {
		t.Errorf("sale reconcile: %d\n%s", code, out)
	}
	for id, user := range r.won {
		code, out = w.weirSays("sale", "ledger", "demo", "--user", user)
		if code != exitOK || !strings.Contains(out, id) || !strings.Contains(out, "confirmed") {
			t.Errorf("sale ledger of %s, who has %s: %d\n%s", user, id, code, out)
		}
		break
	}
	code, out = w.weirSays("sale", "ledger", "demo", "--state", "confirmed", "--limit", "1000")
	if code != exitOK || strings.Count(out, " confirmed ") != rushUnits {
		t.Errorf("sale ledger: %d, %d rows", code, strings.Count(out, " confirmed "))
	}
}

// afterAPause lets an operator look, and resume what weir has paused: then
// every win that was told must be there, and the books must be right. Those who
// were sent away come again.
func (r *rush) afterAPause(t *testing.T) {
	t.Helper()
	for range 5 {
		v, _ := r.worlds[0].p.stock.View("demo")
		if v.Desired == inventory.DesiredOn && r.closed == 0 {
			return
		}
		if v.Desired == inventory.DesiredPaused {
			if v.Reason == "" {
				t.Error("paused without a reason")
			}
			r.worlds[0].settled()
			if lost := r.missing(r.worlds[0]); len(lost) > 0 {
				t.Errorf("not in the ledger, after the replicas told their wins again: %v", lost)
			}
			if code, out := r.worlds[0].weirSays("sale", "resume", "demo"); code != exitOK {
				t.Fatalf("resume: %d %s", code, out)
			}
		}
		eventually(t, 5*time.Second, "both replicas know that it goes on", func() bool {
			return !slices.ContainsFunc(r.worlds, func(w *world) bool {
				v, _ := w.p.stock.View("demo")
				return v.Desired != inventory.DesiredOn
			})
		})
		r.run(t, 0, nil)
	}
	t.Error("paused five times")
}

func TestStock_ACrowdOnAClusterWhoseSlotMoves(t *testing.T) {
	r := redistest.Cluster(t, 3, 1, careful()...)
	one, two := twoOn(t, forRush(t, onCluster(t, r)))
	slot := onePerMaster(t, one, r)
	crowd := gatherRush(t, rushBuyers, one, two)
	crowd.run(t, 5, func() {
		from := r.MasterOf(slot)
		to := r.Masters()[0]
		if to == from {
			to = r.Masters()[1]
		}
		r.MigrateSlot(t, slot, from, to, func() {
			eventually(t, 20*time.Second, "it sells meanwhile", func() bool { return crowd.wins() > 10 })
		})
	})
	crowd.sellsAll(t)
}

// TestStock_ACrowdOnAClusterWhoseMasterDies: its replica is behind when it takes over.
func TestStock_ACrowdOnAClusterWhoseMasterDies(t *testing.T) {
	for name, wait := range map[string]int{"with a replica's word": 1, "without": 0} {
		t.Run(name, func(t *testing.T) {
			r := redistest.Cluster(t, 3, 1, careful()...)
			c := forRush(t, onCluster(t, r))
			c.Stock.WaitReplicas = wait
			one, two := twoOn(t, c)
			slot := onePerMaster(t, one, r)
			crowd := gatherRush(t, rushBuyers, one, two)
			crowd.run(t, 8, func() {
				victim := r.MasterOf(slot)
				replica := r.ReplicaOf(victim)
				// A closed link stops a master that has no other replica; a silent one
				// would not, for min-replicas-max-lag, but hold on to what it carries.
				set(t, victim.Client(t), "min-replicas-to-write", "0")
				heal := redistest.CutReplication(t, replica)
				eventually(t, 10*time.Second, "the replica is behind", func() bool { return changes(t, victim) > changes(t, replica) })
				noErr(t, one.p.stock.Refresh(t.Context())) // which sees what will be forgotten
				victim.Kill()
				r.WaitFailover(t, victim)
				heal()
				victim.Start()
			})
			crowd.afterAPause(t)
			crowd.sellsAll(t)
			// With WAIT, what is forgotten was told to nobody.
			if wait == 0 && one.p.stock.Stats().Lost+two.p.stock.Stats().Lost == 0 {
				t.Error("changes were forgotten, and nobody noticed")
			}
		})
	}
}

// changes counts the changes of the buckets that lie on a server.
func changes(t *testing.T, n *redistest.Node) (sum int64) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: n.Socket()})
	defer rdb.Close()
	keys, err := rdb.Keys(t.Context(), "weir:*:head").Result()
	if err != nil {
		t.Fatal(err)
	}
	_ = rdb.ReadOnly(t.Context()).Err()
	for _, k := range keys {
		seq, err := rdb.HGet(t.Context(), k, "seq").Int64()
		if err != nil {
			t.Fatal(err)
		}
		sum += seq
	}
	return sum
}

func TestStock_ACrowdOnSentinelWhoseMasterDies(t *testing.T) {
	for name, wait := range map[string]int{"with a replica's word": 1, "without": 0} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Sentinel(t, careful()...)
			c := forRush(t, onSentinel(t, s))
			c.Stock.WaitReplicas = wait
			one, two := twoOn(t, c)
			crowd := gatherRush(t, rushBuyers, one, two)
			crowd.run(t, 8, func() {
				victim := s.Master()
				victim.Kill()
				s.WaitFailover(t, victim)
				victim.Start()
			})
			crowd.afterAPause(t)
			crowd.sellsAll(t)
		})
	}
}
