package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// H-5: a script cache is one server's, and may be empty at any moment. What
// NOSCRIPT refuses is sent again whole: no buyer hears of it.
func TestStock_H05_AFlushOfTheScriptCachesIsNotNoticed(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		n := redistest.Single(t)
		flushedStorm(t, []*redistest.Node{n}, n.Client(t))
	})
	t.Run("three masters", func(t *testing.T) {
		c := redistest.Cluster(t, 3, 0)
		flushedStorm(t, c.Nodes(), c.Client(t, nil))
	})
}

// flushedStorm sells 60 units, every third of which is given back once, while
// each server's cache is flushed all the time.
func flushedStorm(t *testing.T, nodes []*redistest.Node, c redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	s := newStore(t, c, false)
	sale := clusterSale(t, s, "flushed")
	stop := make(chan struct{})
	var flushing sync.WaitGroup
	for _, n := range nodes {
		rdb := n.Client(t)
		flushing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = rdb.ScriptFlush(context.Background()).Err()
				}
			}
		})
	}
	life := func(i int) error {
		o := order(sale, fmt.Sprint("u", i), 1)
		res, err := s.Reserve(ctx, o)
		if err != nil || !res.Granted {
			return err
		}
		if i%3 == 0 {
			return second(s.Release(ctx, sale.ID, o.ID, 1))
		}
		return errors.Join(second(s.Accept(ctx, sale.ID, o.ID, 1, "S")), second(s.Confirm(ctx, sale.ID, o.ID, 0, "S")), s.Refresh(ctx))
	}
	parallel(t, 60, life)
	for more, left := 100, int64(1); left > 0 && more < 500; more += 100 { // as many as it takes
		parallel(t, 40, func(i int) error { return life(1 + 3*(i+more)) })
		l, err := s.Level(ctx, sale.ID)
		must(t, err)
		left = l.Free
	}
	close(stop)
	flushing.Wait()
	missed := false
	for _, n := range nodes {
		missed = missed || strings.Contains(n.Client(t).Info(ctx, "errorstats").Val(), "errorstat_NOSCRIPT")
	}
	v := &env{store: s}
	v.level(t, sale.ID, 0, 0, 60)
	if checkInvariant(t, s, sale.ID); !missed {
		t.Fatal("no script was ever missing")
	}
}

// moving puts a slot into the state of a move, without moving a key; stable
// takes that back.
func moving(t *testing.T, slot int, from, to *redistest.Node) (stable func()) {
	t.Helper()
	a, b := from.Client(t), to.Client(t)
	id := func(c *redis.Client) string { return c.Do(t.Context(), "CLUSTER", "MYID").Val().(string) }
	must(t, b.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", id(a)).Err())
	must(t, a.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "MIGRATING", id(b)).Err())
	return func() {
		t.Helper()
		must(t, a.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "STABLE").Err())
		must(t, b.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "STABLE").Err())
	}
}

// H-6: while a slot moves, a script that asks for a key that is not there yet
// is refused. All keys are there from the start; half-moved ones are a refusal
// before anything happened, and the same order is taken afterwards, once.
func TestStock_H06_ASlotThatMovesBeforeTheFirstSaleCostsNoUnit(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	s := newStore(t, c.Client(t, nil), false)
	v := &env{store: s}
	sale := clusterSale(t, s, "moving") // 20 units a bucket, no order yet
	from, slot := c.MasterOfKey(bucketsIn(s, sale.ID)[1].headKey())
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[2]
	}
	stable := moving(t, slot, from, to)
	firstOrder := order(sale, userAt(sale, 1, 3, 0), 1)
	v.reserve(t, firstOrder, Taken)
	must(t, second(s.Release(t.Context(), sale.ID, firstOrder.ID, 1)))
	must(t, second(s.Release(t.Context(), sale.ID, order(sale, userAt(sale, 1, 3, 0), 1).ID, 0))) // a tombstone
	must(t, second(v.lendBy(t, s, sale.ID, loan{id: newLoanID(), units: 2, from: 1}, 0)))
	must(t, s.repair(t.Context(), sale.ID))
	must(t, second(s.Sweep(t.Context(), sale.ID)))
	stable()

	orders := make([]Order, 60)
	for i := range orders {
		orders[i] = order(sale, userAt(sale, i%3, 3, 1+i), 1)
	}
	var mu sync.Mutex
	won, refusals := map[string]bool{}, 0
	buy := func(i int) error {
		res, err := s.Reserve(t.Context(), orders[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown):
			refusals++
			return nil
		case err == nil && (res.Granted || res.Code == Known):
			won[orders[i].ID] = true
		case err == nil:
			err = fmt.Errorf("code %d", res.Code)
		}
		return err
	}
	c.MigrateSlot(t, slot, from, to, func() { parallel(t, 30, buy) }) // half of the keys have moved
	if refusals != 10 || len(won) != 20 {
		t.Errorf("half way %d were refused and %d won", refusals, len(won))
	}
	must(t, s.Refresh(t.Context()))
	checkInvariant(t, s, sale.ID)
	refusals = 0
	parallel(t, 60, buy) // the same ones, and as many more
	if refusals != 0 || len(won) != 60 {
		t.Errorf("afterwards %d were refused and %d won", refusals, len(won))
	}
	v.level(t, sale.ID, 0, 60, 0)
	checkInvariant(t, s, sale.ID)
	v.reserve(t, order(sale, "late", 1), NoneFreeNow)
}

// H-14: a gateway still writes to a master that was replaced. The master takes
// no write without a replica (weir asks for that setting), so nobody wins there.
func TestStock_H14_ARevivedMasterSellsNothing(t *testing.T) {
	master, replica := redistest.Replicated(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	ctx := t.Context()
	old := &env{client: master.Client(t)}
	eventually(t, "the master counts its replica", func() bool { return old.client.Set(ctx, "-", 1, 0).Err() == nil })
	old.store = newStore(t, old.client, false)
	sale := old.openSale(t, 10, nil)
	known := old.won(t, sale, "known")
	redistest.WaitReplica(t, replica)
	master.Kill()
	heir := &env{client: replica.Client(t)}
	must(t, heir.client.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
	must(t, heir.client.ConfigSet(ctx, "min-replicas-to-write", "0").Err())
	heir.store = newStore(t, heir.client, false)
	master.Start()

	before := stockKeys(t, old.client)
	orders := []Order{known, order(sale, "ann", 1), order(sale, "bob", 1)}
	for _, step := range []string{"NOREPLICAS", "READONLY"} { // alone, and then as the new one's replica
		for _, o := range orders {
			for name, err := range map[string]error{
				"reserve": second(old.store.Reserve(ctx, o)), "release": second(old.store.Release(ctx, sale.ID, o.ID, 0)),
			} {
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), step) {
					t.Errorf("%s by the old master: %v", name, err)
				}
			}
		}
		if !maps.Equal(before, stockKeys(t, old.client)) {
			t.Fatal("the old master wrote")
		}
		if step == "NOREPLICAS" {
			host, port, _ := strings.Cut(replica.Addr(), ":")
			must(t, old.client.Do(ctx, "REPLICAOF", host, port).Err())
		}
	}
	got := ask(t, 20, func(i int) (*Store, Order) {
		if i < len(orders) {
			return heir.store, orders[i]
		}
		return heir.store, order(sale, fmt.Sprint("u", i), 1)
	})
	if got.wins() != 9 {
		t.Fatal(got)
	}
	heir.level(t, sale.ID, 0, 10, 0)
	checkInvariant(t, heir.store, sale.ID)
}

// H-14 in a cluster: the old master stands still with what it was sent, is
// replaced, and wakes up. Its buyers were told "unknown", never that they won.
func TestStock_H14_AMasterThatWakesUpReplacedHasToldNobodyThatHeWon(t *testing.T) {
	c := redistest.Cluster(t, 3, 1)
	ctx := t.Context()
	s := newStore(t, c.Client(t, nil), false)
	sale := clusterSale(t, s, "asleep")
	v := &env{store: s}
	v.won(t, sale, userAt(sale, 0, 3, 0))
	old, _ := c.MasterOfKey(bucketsIn(s, sale.ID)[0].headKey())
	redistest.WaitReplica(t, c.ReplicaOf(old))
	old.Stop()
	orders := make([]Order, 8)
	for i := range orders {
		orders[i] = order(sale, userAt(sale, 0, 3, 1+i), 1)
	}
	parallel(t, len(orders), func(i int) error {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		res, err := s.Reserve(short, orders[i])
		if err == nil {
			return fmt.Errorf("a sleeping master answered: %+v", res)
		}
		return nil
	})
	c.WaitFailover(t, old)
	old.Cont()
	c.WaitSettled(t)
	eventually(t, "the sale can be read", func() bool { return s.Refresh(ctx) == nil })
	for _, o := range orders {
		eventually(t, "his order is taken", func() bool {
			res, err := s.Reserve(ctx, o)
			return err == nil && (res.Granted || res.Code == Known && res.Reservation.State == Reserved)
		})
	}
	v.level(t, sale.ID, 51, 9, 0)
	checkInvariant(t, s, sale.ID)
	got := ask(t, 80, func(i int) (*Store, Order) { return s, order(sale, fmt.Sprint("later", i), 1) })
	if got.wins() != 51 {
		t.Fatal(got)
	}
	v.level(t, sale.ID, 0, 60, 0)
	checkInvariant(t, s, sale.ID)
}

// strangeNames are those that a careless key would break on.
func strangeNames() []string {
	return []string{"a{b}c", "{", "}", "{}", "{x}", "a b", "ä", "demo\n", "a:b", "*", "", "..", strings.Repeat("x", 65)}
}

// H-16: a name with braces chooses its own slot. Sales and items that could are
// refused when they are made; users may be called anything, and are in no key.
func TestStock_H16_NamesChooseNoSlot(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	client := c.Client(t, nil)
	s := newStore(t, client, false)
	drafts, err := NewDrafts(s)
	must(t, err)
	for _, name := range strangeNames() {
		for field, bad := range map[string]Sale{"id": {ID: name, Item: "good"}, "item": {ID: "good", Item: name}} {
			sale := planned()
			sale.ID, sale.Item = bad.ID, bad.Item
			_, err1 := drafts.Create(t.Context(), sale)
			_, err2 := s.Preheat(t.Context(), sale)
			for _, err := range []error{err1, err2} {
				if !errors.Is(err, ErrInvalidSale) || !strings.Contains(err.Error(), field+":") {
					t.Errorf("%s %q: %v", field, name, err)
				}
			}
		}
	}
	if keys := clusterKeys(t, c); len(keys) != 0 {
		t.Fatalf("a refused name left %v", keys)
	}
	for _, name := range []string{"0", "sales", "w1", "head", "A..-_Z", strings.Repeat("x", 64)} {
		sale := clusterSale(t, s, name)
		v := &env{store: s}
		for i, user := range strangeNames() {
			o := order(sale, user, 1)
			v.reserve(t, o, Taken)
			must(t, second(s.Accept(t.Context(), name, o.ID, 1, user)))
			r, err := s.Confirm(t.Context(), name, o.ID, 0, user)
			if err != nil || r.State != Confirmed || r.User != user {
				t.Fatalf("user %d: %+v, %v", i, r, err)
			}
		}
		b := bucketsIn(s, name)
		must(t, second(v.lendBy(t, s, name, loan{id: newLoanID(), units: 1, from: 1}, 2)))
		must(t, s.repair(t.Context(), name))
		checkInvariant(t, s, name)
		for key := range clusterKeys(t, c) {
			if strings.Contains(key, "{sales}") || !strings.Contains(key, "}:"+name+":") {
				continue
			}
			at := strings.TrimSuffix(strings.TrimPrefix(key[:strings.Index(key, ":"+name+":")], "weir:{"), "}")
			if at != b[0].tag && at != b[1].tag && at != b[2].tag {
				t.Errorf("%s lies in the slot of none of its buckets", key)
			}
		}
	}
}

// clusterKeys are the keys of all nodes.
func clusterKeys(t *testing.T, c *redistest.RedisCluster) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, n := range c.Nodes() {
		keys, err := n.Client(t).Keys(t.Context(), "*").Result()
		must(t, err)
		for _, k := range keys {
			all[k] = true
		}
	}
	return all
}
