package inventory_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/inventory"
	"weir/inventory/archive"
)

// counter is a sale with everything real but the shop.
type counter struct {
	t       *testing.T
	store   *inventory.Store
	archive *archive.DB
	sale    inventory.Sale
}

func openCounter(t *testing.T, total int64) *counter {
	t.Helper()
	m := miniredis.RunT(t)
	m.SetTime(time.Unix(1_800_000_000, 0))
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	db, err := archive.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	check(t, err)
	t.Cleanup(func() { client.Close(); db.Close() })
	store, err := inventory.New(inventory.Config{Redis: client, Memory: true, Replica: "test", Log: slog.New(slog.DiscardHandler), Archive: db})
	check(t, err)
	c := &counter{t: t, store: store, archive: db, sale: inventory.Sale{
		ID: "demo", Version: 1, Item: "1001", EndAt: time.Unix(1_800_003_600, 0), Total: total, MaxQuantity: 1, Hold: time.Minute,
		Expiry: inventory.ExpiryAsk, Settle: inventory.SettleAccept,
	}}
	_, err = store.Preheat(t.Context(), c.sale)
	check(t, err)
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *counter) won(user string) string {
	c.t.Helper()
	id := inventory.NewOrderID(c.sale.ID, user)
	_, err := c.store.Reserve(c.t.Context(), inventory.Order{ID: id, Sale: c.sale.ID, Item: c.sale.Item, User: user, Quantity: 1, AttemptFor: time.Second})
	check(c.t, err)
	_, err = c.store.Confirm(c.t.Context(), c.sale.ID, id, 1, "S-"+user)
	check(c.t, err)
	return id
}

// listed is a shop that can do nothing but list.
type listed []inventory.ShopOrder

func (l listed) Each(_ context.Context, _ string, fn func(inventory.ShopOrder) error) error {
	for _, o := range l {
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (listed) Lookup(context.Context, inventory.Reservation) (inventory.ShopOrder, bool, error) {
	return inventory.ShopOrder{}, false, inventory.ErrNoLookup
}

func (c *counter) reconcile(orders listed) inventory.Report {
	c.t.Helper()
	r, err := inventory.Reconcile(c.t.Context(), inventory.Reconciliation{Sale: c.sale.ID, Books: c.store, Archive: c.archive, Orders: orders, Apply: true})
	check(c.t, err)
	return r
}

func TestReconcileBringsLedgerAndSQLArchiveTogether(t *testing.T) {
	c := openCounter(t, 3)
	ann := c.won("ann")
	lost := inventory.Reservation{ // the archive has it, Redis has forgotten it
		ID: inventory.NewOrderID("demo", "bob"), Sale: "demo", Item: "1001", User: "bob", Quantity: 1, State: inventory.Confirmed,
		ReservedAt: time.Unix(1_800_000_000, 0).UTC(), ExpiresAt: time.Unix(1_800_000_060, 0).UTC(), Attempt: 1, ShopOrder: "S-bob",
	}
	check(t, c.archive.Save(t.Context(), c.sale, []inventory.Reservation{lost}))
	orders := listed{
		{Reservation: ann, Order: "S-ann", User: "ann", Quantity: 1, State: inventory.OrderPaid},
		{Reservation: lost.ID, Order: "S-bob", User: "bob", Quantity: 1, State: inventory.OrderPaid},
		{Reservation: inventory.NewOrderID("demo", "cat"), Order: "S-cat", User: "cat", Quantity: 1, State: inventory.OrderPaid},
	}
	if r := c.reconcile(orders); len(r.Differences) != 3 || r.Differences[2].Kind != inventory.KindArchiveBehind {
		t.Fatalf("%+v", r.Differences)
	}
	if r := c.reconcile(orders); len(r.Differences) != 0 || r.Units != (inventory.Units{Total: 3, Ledger: 3, Archive: 3, Shop: 3}) {
		t.Fatalf("%+v", r)
	}
	a, err := c.store.Audit(t.Context(), "demo")
	check(t, err)
	if kept, err := c.archive.Sale(t.Context(), "demo"); err != nil || kept.Sold != 3 || !a.OK || a.Level.Free != 0 {
		t.Fatalf("%d kept.Sold, %v, %+v", kept.Sold, err, a)
	}
	orders = append(orders, inventory.ShopOrder{Reservation: inventory.NewOrderID("demo", "eve"), Order: "S-eve", User: "eve", Quantity: 1, State: inventory.OrderPaid})
	for range 2 {
		if r := c.reconcile(orders); len(r.Differences) != 2 || r.Differences[0].Kind != inventory.KindOversold || r.Differences[1].Kind != inventory.KindDeficit {
			t.Fatalf("%+v", r.Differences)
		}
	}
}

func TestReconcileJudgesASaleThatOnlySQLHas(t *testing.T) {
	c := openCounter(t, 2)
	ann := c.won("ann")
	_, err := c.store.SetDesired(t.Context(), "demo", inventory.DesiredCancelled)
	check(t, err)
	check(t, c.store.Cleanup(t.Context(), "demo"))
	bob := inventory.NewOrderID("demo", "bob")
	orders := listed{
		{Reservation: ann, Order: "S-ann", User: "ann", Quantity: 1, State: inventory.OrderCancelled},
		{Reservation: bob, Order: "S-bob", User: "bob", Quantity: 1, State: inventory.OrderPaid},
	}
	if r := c.reconcile(orders); len(r.Differences) != 2 || !r.LedgerGone || !r.Differences[0].Applied || !r.Differences[1].Applied {
		t.Fatalf("%+v", r)
	}
	if r := c.reconcile(orders); len(r.Differences) != 0 || r.Units.Ledger != 1 {
		t.Fatalf("%+v", r)
	}
	for id, want := range map[string]inventory.State{ann: inventory.Returned, bob: inventory.Confirmed} {
		if got, err := c.archive.Find(t.Context(), id); err != nil || got.State != want {
			t.Errorf("%+v %v", got, err)
		}
	}
}
