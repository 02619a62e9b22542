package archive

import (
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/inventory"
)

// stock is a real Store on miniredis.
type stock struct {
	*inventory.Store
	mini *miniredis.Miniredis
	now  time.Time
}

func (s *stock) advance(t *testing.T, d time.Duration) {
	s.now = s.now.Add(d)
	s.mini.SetTime(s.now)
	must(t, s.Refresh(t.Context()))
}

func newStock(t *testing.T, sale inventory.Sale, archive inventory.Archive) *stock {
	m := miniredis.RunT(t)
	s := &stock{mini: m, now: sale.StartAt.Add(-time.Minute)}
	m.SetTime(s.now)
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	var err error
	s.Store, err = inventory.New(inventory.Config{Redis: client, Memory: true, Replica: "test", Archive: archive, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = s.Preheat(t.Context(), sale)
	must(t, err)
	s.advance(t, 2*time.Minute)
	return s
}

func (s *stock) reserve(t *testing.T, sale inventory.Sale, user string) string {
	t.Helper()
	o := inventory.Order{
		ID: inventory.NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, AttemptFor: time.Second,
	}
	r, err := s.Reserve(t.Context(), o)
	if err != nil || !r.Granted {
		t.Fatalf("reserve for %s: %+v, %v", user, r, err)
	}
	return o.ID
}

func TestAnOrderOfADeletedSaleIsSettledInTheArchiveAlone(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		sale := plan(3)
		s := newStock(t, sale, d)
		paid, open, late := s.reserve(t, sale, "ann"), s.reserve(t, sale, "bob"), s.reserve(t, sale, "cid")
		_, err := s.Confirm(t.Context(), sale.ID, paid, 0, "order-1")
		must(t, err)
		_, err = s.Release(t.Context(), sale.ID, open, 0)
		must(t, err)
		must(t, s.Refresh(t.Context()))
		c := newCopier(t, s, d, func(c *CopierConfig) { c.Now, c.Leases = func() time.Time { return s.now }, s.Store })
		done, err := c.Copy(t.Context(), sale.ID)
		if err != nil || done.Rows != 3 || done.Open != 1 || done.Complete {
			t.Fatalf("%+v, %v", done, err)
		}
		s.advance(t, 2*time.Hour)
		_, err = s.Sweep(t.Context(), sale.ID) // frees the third
		must(t, err)
		s.advance(t, day)
		c.tried(-time.Hour)
		c.round(t.Context())
		c.tried(-time.Hour)
		c.round(t.Context())
		if last := c.passes[len(c.passes)-1]; !last.Deleted || !s.Views()[0].Gone {
			t.Fatalf("not deleted: %+v, %v", c.passes, c.errs)
		}
		s.mini.Close() // from here on there is no Redis
		for _, step := range []struct {
			id       string
			to, want inventory.State
		}{
			{late, inventory.Confirmed, inventory.Confirmed}, {late, inventory.Confirmed, inventory.Confirmed},
			{paid, inventory.Confirmed, inventory.Confirmed}, {paid, inventory.Returned, inventory.Returned},
			{paid, inventory.Returned, inventory.Returned}, {open, inventory.Released, inventory.Released},
		} {
			if r, err := d.Settle(t.Context(), step.id, step.to, 0, ""); err != nil || r.State != step.want {
				t.Fatalf("%s to %s: %s, %v", step.id, step.to, r.State, err)
			}
			checkArchive(t, d, sale.ID)
		}
		if r := wantState(t, d, paid, inventory.Returned); r.ShopOrder != "order-1" || r.User != "ann" {
			t.Fatalf("archived %+v", r)
		}
		wantSold(t, d, 1)
	})
}

func TestTheLedgerOfARealStoreIsCopiedWhole(t *testing.T) {
	const many = 600
	sale := plan(many)
	d := open(t, newSQLite(t))
	s := newStock(t, sale, d)
	for i := range many { // past what HSCAN gives at a time
		id := s.reserve(t, sale, "")
		if i%2 == 0 {
			_, err := s.Confirm(t.Context(), sale.ID, id, 1, "")
			must(t, err)
		}
	}
	c := newCopier(t, s, d, nil)
	_, err := c.Copy(t.Context(), sale.ID)
	must(t, err)
	all, n := checkArchive(t, d, sale.ID), 0
	must(t, s.Ledger(t.Context(), sale.ID, func(r inventory.Reservation) error {
		if n++; all[r.ID] != r {
			t.Fatalf("archived %+v, in the ledger %+v", all[r.ID], r)
		}
		return nil
	}))
	if n != many || len(all) != n {
		t.Fatalf("%d in the ledger, %d archived", n, len(all))
	}
	wantSold(t, d, many/2)
}
