package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/redistest"
)

// waits is a replica on a cluster that waits for a replica of Redis, or not.
func waits(t *testing.T, c *redistest.RedisCluster, replicas int) *Store {
	t.Helper()
	s, err := New(Config{
		Redis: c.Client(t, nil), Replica: "waits", Log: slog.New(slog.DiscardHandler),
		Wait: Wait{Replicas: replicas, Timeout: 5 * time.Second},
	})
	must(t, err)
	return s
}

// otherMaster is a master that does not have the slot.
func otherMaster(c *redistest.RedisCluster, not *redistest.Node) *redistest.Node {
	if m := c.Masters()[0]; m != not {
		return m
	}
	return c.Masters()[1]
}

// TestStock_H06_ABucketWhoseKeysHaveAllMovedIsFollowed: the slot is still on its
// way, so each script is sent on by ASK.
func TestStock_H06_ABucketWhoseKeysHaveAllMovedIsFollowed(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprint("WAIT ", replicas), func(t *testing.T) {
			ctx := t.Context()
			c := redistest.Cluster(t, 3, replicas)
			s := waits(t, c, replicas)
			v := &env{store: s}
			sale := clusterSale(t, s, "asked")
			from, slot := c.MasterOfKey(bucketsIn(s, sale.ID)[1].headKey())
			to := otherMaster(c, from)
			moving(t, slot, from, to)
			old, heir := from.Client(t), to.Client(t)
			keys, err := old.Do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, 100).Slice()
			must(t, err)
			host, port, _ := net.SplitHostPort(to.Addr())
			must(t, old.Do(ctx, append([]any{"MIGRATE", host, port, "", 0, 2000, "KEYS"}, keys...)...).Err())
			if err := old.Get(ctx, bucketsIn(s, sale.ID)[1].headKey()).Err(); err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
				t.Fatalf("no ASK: %v", err)
			}
			o := order(sale, userAt(sale, 1, 3, 0), 1)
			if res, err := s.Reserve(ctx, o); err != nil || res.Code != Taken {
				t.Fatalf("ASK was not followed: %+v %v", res, err)
			}
			must(t, heir.ScriptFlush(ctx).Err()) // NOSCRIPT there, and again by EVAL
			must(t, second(s.Confirm(ctx, sale.ID, o.ID, 1, "S")))
			id := heir.Do(ctx, "CLUSTER", "MYID").Val()
			must(t, heir.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
			must(t, old.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
			eventually(t, "it is known there", func() bool {
				res, err := s.Reserve(ctx, o)
				return err == nil && res.Code == Known && res.Reservation.State == Confirmed
			})
			eventually(t, "it can be read", func() bool { return s.Refresh(ctx) == nil })
			v.level(t, sale.ID, 59, 0, 1)
			checkInvariant(t, s, sale.ID)
		})
	}
}

// TestStock_H06_ASlotMovesWhileEachScriptWaits: nothing is taken twice, and who
// was told nothing certain learns it afterwards.
func TestStock_H06_ASlotMovesWhileEachScriptWaits(t *testing.T) {
	c := redistest.Cluster(t, 3, 1)
	s := waits(t, c, 1)
	v := &env{store: s}
	sale := clusterSale(t, s, "moving")
	from, slot := c.MasterOfKey(bucketsIn(s, sale.ID)[1].headKey())
	orders := make([]Order, 60)
	for i := range orders {
		orders[i] = order(sale, userAt(sale, i%3, 3, 1+i), 1)
	}
	var mu sync.Mutex
	won, uncertain := map[string]bool{}, 0
	buy := func(i int) error {
		res, err := s.Reserve(t.Context(), orders[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown):
			uncertain++
			return nil
		case err == nil && (res.Granted || res.Code == Known):
			won[orders[i].ID] = true
		case err == nil:
			err = fmt.Errorf("code %d", res.Code)
		}
		return err
	}
	c.MigrateSlot(t, slot, from, otherMaster(c, from), func() { parallel(t, 30, buy) })
	eventually(t, "all have won", func() bool {
		uncertain = 0
		parallel(t, 60, buy)
		return uncertain == 0 && len(won) == 60
	})
	v.level(t, sale.ID, 0, 60, 0)
	checkInvariant(t, s, sale.ID)
}

// TestStock_T15_OnAClusterEachHarmIsOneExecution: reserve, accept, confirm and
// release, their reply dropped or kept back, or cut off before they arrive.
func TestStock_T15_OnAClusterEachHarmIsOneExecution(t *testing.T) { // H-2
	c := redistest.Cluster(t, 3, 0)
	p := redistest.ProxyCluster(t, c)
	s, direct := newStore(t, p.Client(t, nil), false), newStore(t, c.Client(t, nil), false)
	ctx := t.Context()
	sale := clusterSale(t, s, "lost")
	v := &env{store: direct}
	must(t, direct.Refresh(ctx))
	for at := range 3 { // each master knows each script
		o := order(sale, userAt(sale, at, 3, 50), 1)
		v.reserve(t, o, Taken)
		must(t, second(direct.Accept(ctx, sale.ID, o.ID, 1, "W")))
		must(t, second(direct.Confirm(ctx, sale.ID, o.ID, 0, "W")))
		must(t, second(direct.Release(ctx, sale.ID, o.ID, 0)))
	}
	harms := map[string]func() *redistest.Fault{
		"dropped": func() *redistest.Fault { return p.DropReply("EVALSHA", 1) },
		"hanging": func() *redistest.Fault { return p.HangReply("EVALSHA", 1) },
		"cut":     func() *redistest.Fault { return p.CutBefore("EVALSHA", 1) },
	}
	for name, harm := range harms {
		o := order(sale, "ann"+name, 1)
		o.AttemptFor = time.Minute
		for i, act := range []func() error{
			func() error { return second(s.Reserve(ctx, o)) },
			func() error { return second(s.Accept(ctx, sale.ID, o.ID, 1, "S")) },
			func() error { return second(s.Confirm(ctx, sale.ID, o.ID, 0, "S")) },
			func() error { return second(s.Release(ctx, sale.ID, o.ID, 0)) },
		} {
			sent, before := p.Count("EVALSHA"), seqOf(t, direct, sale.ID)
			fault := harm()
			if err := act(); !errors.Is(err, ErrOutcomeUnknown) || fault.Hits() != 1 || p.Count("EVALSHA")-sent != 1 {
				t.Errorf("%s, step %d: %v, %d hits, %d sent", name, i, err, fault.Hits(), p.Count("EVALSHA")-sent)
			}
			p.ClearFaults()
			want := map[bool]int64{true: 0, false: 1}[name == "cut"]
			if n := seqOf(t, direct, sale.ID) - before; n != want {
				t.Errorf("%s, step %d: executed %d times", name, i, n)
			}
			must(t, act())
			if n := seqOf(t, direct, sale.ID) - before; n != 1 {
				t.Errorf("%s, step %d: %d changes after the retry", name, i, n)
			}
		}
	}
	v.level(t, sale.ID, 60, 0, 0)
	checkInvariant(t, direct, sale.ID)
}

// TestStock_T28_AMasterThatIsDownLeavesTheOldSale: the second version cannot be
// written whole. Nothing of it is left once the master is back.
func TestStock_T28_AMasterThatIsDownLeavesTheOldSale(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	s := newStore(t, c.Client(t, nil), false)
	ctx := t.Context()
	now, err := s.redis.Time(ctx).Result()
	must(t, err)
	sale := planned()
	sale.ID, sale.Item, sale.Total, sale.StartAt, sale.EndAt = "down", "down", 60, now.Add(time.Hour), now.Add(2*time.Hour)
	must(t, second(s.Preheat(ctx, sale)))
	meta, _ := c.MasterOfKey(salesKey())
	var victim *redistest.Node
	for _, b := range bucketsIn(s, sale.ID) {
		if n, _ := c.MasterOfKey(b.headKey()); n != meta {
			victim = n
		}
	}
	next := sale
	next.Version, next.Total, next.StartAt = 2, 90, sale.StartAt.Add(time.Minute)
	victim.Kill()
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if v, err := s.Preheat(short, next); err == nil {
		t.Fatalf("preheated without a master: %+v", v)
	}
	victim.Start()
	inForce := func(version, free int64) func() bool {
		return func() bool {
			_ = s.Refresh(ctx)
			view, _ := s.View(sale.ID)
			return view.Sale.Version == version && view.Level.Free == free && oneGeneration(t, c)
		}
	}
	eventually(t, "the old one is in force, and nothing else is there", inForce(1, 60))
	checkInvariant(t, s, sale.ID)
	eventually(t, "preheated again", func() bool { return second(s.Preheat(ctx, next)) == nil })
	eventually(t, "the new one is in force, and nothing else is there", inForce(2, 90))
	checkInvariant(t, s, sale.ID)
}

// oneGeneration: all buckets' keys of the cluster are of one.
func oneGeneration(t *testing.T, c *redistest.RedisCluster) bool {
	all := map[string]bool{}
	for key := range clusterKeys(t, c) {
		if !strings.Contains(key, "{sales}") {
			all[strings.Split(key, ":")[3]] = true
		}
	}
	return len(all) == 1
}

// TestStock_H15_OnAClusterBucketsDifferByAtMostOneAMaster: where they lie is
// asked of the servers.
func TestStock_H15_OnAClusterBucketsDifferByAtMostOneAMaster(t *testing.T) {
	c := redistest.Cluster(t, 5, 0)
	s := newStore(t, c.Client(t, nil), false)
	for _, buckets := range []int{3, 5, 10, 13} {
		now, err := s.redis.Time(t.Context()).Result()
		must(t, err)
		sale := planned()
		sale.ID, sale.Item, sale.Total = fmt.Sprint("b", buckets), fmt.Sprint("i", buckets), 1000
		sale.Buckets, sale.StartAt, sale.EndAt = buckets, time.Time{}, now.Add(time.Hour)
		must(t, second(s.Preheat(t.Context(), sale)))
		at := map[*redistest.Node]int{}
		for _, m := range c.Masters() {
			at[m] = 0
		}
		for _, b := range bucketsIn(s, sale.ID) {
			n, _ := c.MasterOfKey(b.headKey())
			at[n]++
		}
		counts := slices.Sorted(maps.Values(at))
		if len(counts) != 5 || counts[4]-counts[0] > 1 {
			t.Errorf("%d buckets on five masters: %v", buckets, counts)
		}
	}
}
