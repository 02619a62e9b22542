package redistest

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// MigrateSlot moves a slot with all its keys from one master to another, as an
// operator would: IMPORTING, MIGRATING, MIGRATE by slices, NODE. When half of
// the keys have moved, between is called (nil: nothing is): then clients meet
// ASK for the keys that have moved or do not exist, and TRYAGAIN for several
// keys of which only some have. Returns when every node knows the new master.
func (c *RedisCluster) MigrateSlot(t testing.TB, slot int, from, to *Node, between func()) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("redistest: migrate slot %d: %v", slot, err)
		}
	}
	must(to.do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]).Err())
	must(from.do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to]).Err())
	all, err := from.do(ctx, "CLUSTER", "COUNTKEYSINSLOT", slot).Int()
	must(err)
	_, err = from.moveKeys(ctx, slot, to, all/2)
	must(err)
	if between != nil {
		between()
	}
	for moved := 1; moved > 0; {
		moved, err = from.moveKeys(ctx, slot, to, 100)
		must(err)
	}
	// The new master first: should anything fail here, the slot still has one.
	for _, n := range slices.Concat([]*Node{to, from}, c.Masters()) {
		must(n.do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to]).Err())
	}
	wait(t, fmt.Sprintf("slot %d to be known at %s", slot, to.Addr()), func() error { return c.served(ctx, slot, to) })
}

// moveKeys moves at most n keys and tells how many there were to move.
func (n *Node) moveKeys(ctx context.Context, slot int, to *Node, count int) (int, error) {
	if count == 0 {
		return 0, nil
	}
	keys, err := n.do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, count).Slice()
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	args := append([]any{"MIGRATE", "127.0.0.1", to.port, "", 0, 2000, "KEYS"}, keys...)
	return len(keys), n.do(ctx, args...).Err()
}

func (c *RedisCluster) served(ctx context.Context, slot int, by *Node) error {
	for _, n := range c.running() {
		owners, err := n.owners(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(owners, func(o owner) bool { return o.port == by.port && o.from <= slot && slot <= o.to }) {
			return fmt.Errorf("%s still names another master", n.Addr())
		}
	}
	return nil
}
