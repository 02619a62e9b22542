package inventory

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// spoilt is a way to make a real server refuse, and to mend it.
type spoilt struct {
	spoil, mend func()
}

// refusals are those of the server n, on which the bucket b lies.
func refusals(t *testing.T, n *redistest.Node, b bucket) map[string]spoilt {
	rdb := n.Client(t)
	do := func(args ...any) func() {
		return func() { t.Helper(); must(t, rdb.Do(t.Context(), args...).Err()) }
	}
	aside := b.key("aside")
	return map[string]spoilt{
		"OOM":        {spoil: do("CONFIG", "SET", "maxmemory", "1"), mend: do("CONFIG", "SET", "maxmemory", "0")},
		"NOREPLICAS": {spoil: do("CONFIG", "SET", "min-replicas-to-write", "1"), mend: do("CONFIG", "SET", "min-replicas-to-write", "0")},
		"WRONGTYPE": {
			spoil: func() { do("RENAME", b.ledgerKey(), aside)(); do("SET", b.ledgerKey(), "x")() },
			mend:  do("RENAME", aside, b.ledgerKey()),
		},
		"LOADING": slowReload(t, n, b),
	}
}

// slowReload has the server load its data again, one key after the other.
func slowReload(t *testing.T, n *redistest.Node, b bucket) spoilt {
	const fill = `for i = 1, 4000 do redis.call(ARGV[1], KEYS[1] .. i, ARGV[2]) end return 1`
	rdb, done := n.Client(t), make(chan error, 1)
	filler := b.key("filler")
	config := func(name, value string) { must(t, rdb.ConfigSet(t.Context(), name, value).Err()) }
	return spoilt{
		spoil: func() {
			must(t, rdb.Eval(t.Context(), fill, []string{filler}, "SET", strings.Repeat("x", 100)).Err())
			config("key-load-delay", "500") // µs
			config("loading-process-events-interval-bytes", "1024")
			slow := n.Options()
			slow.ReadTimeout = time.Minute
			go func() {
				c := redis.NewClient(slow)
				defer c.Close()
				done <- c.Do(t.Context(), "DEBUG", "RELOAD").Err()
			}()
			eventually(t, "it loads", func() bool { return redis.HasErrorPrefix(rdb.Get(t.Context(), filler+"1").Err(), "LOADING") })
		},
		mend: func() {
			config("key-load-delay", "0")
			must(t, <-done)
		},
	}
}

// refusedAndThenTaken: while the server refuses, the order is certainly not
// executed; afterwards the same one takes one unit.
func refusedAndThenTaken(t *testing.T, s *Store, o Order, says string, f spoilt) {
	t.Helper()
	before, err := s.Level(t.Context(), o.Sale)
	must(t, err)
	f.spoil()
	_, err = s.Reserve(t.Context(), o)
	f.mend()
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), says+" ") {
		t.Errorf("want %s, got %v", says, err)
	}
	eventually(t, "the books can be read", func() bool { return s.Refresh(t.Context()) == nil })
	checkInvariant(t, s, o.Sale)
	if after, err := s.Level(t.Context(), o.Sale); err != nil || after.Free != before.Free {
		t.Errorf("free %d, then %d (%v)", before.Free, after.Free, err)
	}
	eventually(t, "the same order is taken", func() bool {
		res, err := s.Reserve(t.Context(), o)
		return err == nil && (res.Code == Taken || res.Code == Known)
	})
	checkInvariant(t, s, o.Sale)
	if after, _ := s.Level(t.Context(), o.Sale); after.Free != before.Free-1 {
		t.Errorf("free %d, then %d", before.Free, after.Free)
	}
	if v, _ := s.View(o.Sale); v.Desired != DesiredOn {
		t.Errorf("it is %s: %s", v.Desired, v.Reason)
	}
}

func TestErrors_WhatARealServerRefusesTakesNothing(t *testing.T) {
	n := redistest.Single(t)
	s := newStore(t, n.Client(t), false)
	sale := clusterSale(t, s, "one")
	all := refusals(t, n, bucketsIn(s, sale.ID)[0])
	rdb := n.Client(t)
	all["READONLY"] = spoilt{
		spoil: func() { must(t, rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err()) },
		mend:  func() { must(t, rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err()) },
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) { refusedAndThenTaken(t, s, order(sale, "u-"+name, 1), name, f) })
	}
}

func TestErrors_WhatAClusterRefusesTakesNothing(t *testing.T) {
	r := redistest.Cluster(t, 3, 0, "--cluster-require-full-coverage", "yes")
	s := newStore(t, r.Client(t, nil), false)
	sale := clusterSale(t, s, "three")
	b := bucketsIn(s, sale.ID)[0]
	n, _ := r.MasterOfKey(b.headKey())
	all := refusals(t, n, b)
	all["CLUSTERDOWN"] = holeInTheSlots(t, r, s, sale)
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			refusedAndThenTaken(t, s, order(sale, userAt(sale, 0, 3, len(name)), 1), name, f)
		})
	}
	t.Run("NOSCRIPT", func(t *testing.T) {
		for _, m := range r.Nodes() {
			must(t, m.Client(t).ScriptFlush(t.Context()).Err())
		}
		v := &env{store: s}
		for at := range 3 {
			v.reserve(t, order(sale, userAt(sale, at, 3, 99), 1), Taken)
		}
	})
}

// holeInTheSlots takes a slot from the cluster that no key of the sale needs:
// then every node refuses everything.
func holeInTheSlots(t *testing.T, r *redistest.RedisCluster, s *Store, sale Sale) spoilt {
	t.Helper()
	used := map[int]bool{slotOf("sales"): true}
	for _, b := range bucketsIn(s, sale.ID) {
		used[slotOf(b.tag)] = true
	}
	slot := 0
	for used[slot] {
		slot++
	}
	owner := r.MasterOf(slot)
	everywhere := func(state string) {
		for _, m := range r.Nodes() {
			rdb := m.Client(t)
			eventually(t, "every node says "+state, func() bool {
				info, err := rdb.ClusterInfo(context.Background()).Result()
				return err == nil && strings.Contains(info, "cluster_state:"+state)
			})
		}
	}
	return spoilt{
		spoil: func() {
			for _, m := range r.Nodes() {
				must(t, m.Client(t).Do(t.Context(), "CLUSTER", "DELSLOTS", slot).Err())
			}
			everywhere("fail")
		},
		mend: func() {
			must(t, owner.Client(t).Do(t.Context(), "CLUSTER", "ADDSLOTS", slot).Err())
			everywhere("ok")
		},
	}
}
