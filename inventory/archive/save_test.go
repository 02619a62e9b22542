package archive

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/inventory"
)

func TestARowComesBackAsItWasSaved(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		r := row(1, inventory.Reserved, 3)
		r.Kind, r.ShopOrder, r.Attempt, r.AttemptUntil = "loan", "order-7", 4, saleStart.Add(time.Second)
		r.Stuck, r.InPayment, r.Bucket = true, true, 7
		sale := plan(10)
		sale.BuyerLimit, sale.SafetyStock, sale.Buckets = 2, 5, 10
		save(t, d, sale, r)
		got, err := d.Find(t.Context(), r.ID)
		must(t, err)
		if diff := cmp.Diff(r, got); diff != "" {
			t.Fatal(diff)
		}
		kept, err := d.Sale(t.Context(), sale.ID)
		must(t, err)
		if diff := cmp.Diff(sale, kept.Plan); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAnyBytesMayNameABuyerOrAnOrder(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		for i, text := range []string{"", "Zoë", "a\x00b", "\xff\xfe", `\x00`, `\xzz`, "'; DROP TABLE sales; --", "$1", strings.Repeat("x", 4096)} {
			r := row(i, inventory.Confirmed, 1)
			r.User, r.ShopOrder = text, text
			save(t, d, plan(100), r)
			if got := wantState(t, d, r.ID, inventory.Confirmed); got.User != text || got.ShopOrder != text {
				t.Errorf("%q came back as user %q, order %q", text, got.User, got.ShopOrder)
			}
		}
	})
}

func TestStatesOnlyMoveForward(t *testing.T) {
	states := []inventory.State{
		inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Expired,
		inventory.RefundDue, inventory.Returned, inventory.Cancelled,
	}
	later := map[inventory.State]string{
		inventory.Reserved: "confirmed released expired refund_due returned", inventory.Expired: "confirmed refund_due returned",
		inventory.Confirmed: "returned",
	}
	each(t, func(t *testing.T, d *DB) {
		n := 0
		for _, first := range states {
			for _, second := range states {
				n++
				want := first
				if strings.Contains(" "+later[first]+" ", " "+string(second)+" ") {
					want = second
				}
				save(t, d, plan(1000), row(n, first, 2))
				save(t, d, plan(1000), row(n, second, 2))
				if got := wantState(t, d, row(n, first, 2).ID, want); got.Quantity != 2 {
					t.Errorf("%s then %s: %+v", first, second, got)
				}
			}
		}
	})
}

func TestAnEqualStateTakesNewsButNoStaleCopy(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		r := row(1, inventory.Reserved, 1)
		r.Attempt, r.ShopOrder = 2, "order-1"
		save(t, d, plan(1), r)
		stale := r
		stale.Attempt, stale.ShopOrder, stale.Stuck = 1, "", true
		save(t, d, plan(1), stale)
		if got := wantState(t, d, r.ID, inventory.Reserved); got != r {
			t.Fatalf("a stale copy changed it: %+v", got)
		}
		news := r
		news.Attempt, news.ShopOrder, news.Stuck, news.InPayment, news.ExpiresAt = 3, "", true, true, r.ExpiresAt.Add(time.Minute)
		save(t, d, plan(1), news)
		news.ShopOrder = "order-1" // known once, known for ever
		if got := wantState(t, d, r.ID, inventory.Reserved); got != news {
			t.Fatalf("got %+v, want %+v", got, news)
		}
	})
}

func TestNothingOfAnOversoldSliceIsStored(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		save(t, d, plan(3), row(1, inventory.Confirmed, 2))
		err := d.Save(t.Context(), plan(3), []inventory.Reservation{row(2, inventory.Released, 1), row(3, inventory.Confirmed, 2)})
		wantError(t, err, inventory.ErrOversold)
		if all := checkArchive(t, d, "sale-1"); len(all) != 1 {
			t.Fatalf("%d rows stored, want 1", len(all))
		}
		save(t, d, plan(3), row(3, inventory.Confirmed, 1))
		wantSold(t, d, 3)
		// One goes back and another is sold, in one slice and in any order.
		save(t, d, plan(3), row(4, inventory.Confirmed, 2), row(1, inventory.Returned, 2))
		wantSold(t, d, 3)
	})
}

func TestOneRowManyTimesInASliceCountsOnce(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		a := row(1, inventory.Reserved, 1)
		b := row(1, inventory.Confirmed, 1)
		save(t, d, plan(1), a, b, a, b)
		wantState(t, d, a.ID, inventory.Confirmed)
		save(t, d, plan(1), a, b)
		wantSold(t, d, 1)
	})
}

func TestTheLatestVersionOfAPlanWinsButNeverBelowWhatIsSold(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		v := func(version, total int64) inventory.Sale {
			s := plan(total)
			s.Version = version
			return s
		}
		save(t, d, v(2, 5))
		save(t, d, v(1, 9), row(1, inventory.Confirmed, 4))
		if kept, err := d.Sale(t.Context(), "sale-1"); err != nil || kept.Plan.Total != 5 || kept.Plan.Version != 2 {
			t.Fatalf("an older version came through: %+v %v", kept, err)
		}
		wantError(t, d.Save(t.Context(), v(1, 9), []inventory.Reservation{row(2, inventory.Confirmed, 2)}), inventory.ErrOversold)
		wantError(t, d.Save(t.Context(), v(3, 3), nil), inventory.ErrOversold)
		save(t, d, v(4, 6), row(2, inventory.Confirmed, 2))
		wantSold(t, d, 6)
	})
}

func TestAContradictionStaysOutAndIsLoud(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		var log bytes.Buffer
		d := open(t, dsn, WithLog(slog.New(slog.NewTextHandler(&log, nil))))
		save(t, d, plan(5), row(1, inventory.Released, 1))
		save(t, d, plan(5), row(1, inventory.Confirmed, 1), row(2, inventory.Confirmed, 1))
		wantState(t, d, row(1, "", 0).ID, inventory.Released)
		wantState(t, d, row(2, "", 0).ID, inventory.Confirmed)
		save(t, d, plan(5), row(2, inventory.Confirmed, 4))
		wantSold(t, d, 1)
		for _, want := range []string{"archived=released ledger=confirmed", "archived_quantity=1 ledger_quantity=4"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}

func TestRowsThatDoNotBelongAreRefused(t *testing.T) {
	foreign, negative, odd, nameless := row(1, inventory.Reserved, 1), row(1, inventory.Reserved, -1), row(1, "sold", 1), row(1, inventory.Reserved, 1)
	foreign.Sale, nameless.ID = "sale-2", ""
	each(t, func(t *testing.T, d *DB) {
		for name, rows := range map[string][]inventory.Reservation{
			"more than a slice": make([]inventory.Reservation, inventory.ArchiveSlice+1), "of another sale": {foreign},
			"negative": {negative}, "unknown state": {odd}, "no id": {nameless},
		} {
			if err := d.Save(t.Context(), plan(5), rows); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		wantError(t, d.Save(t.Context(), inventory.Sale{ID: "sale-1"}, nil), inventory.ErrInvalidSale)
		_, err := d.Sale(t.Context(), "sale-1")
		wantError(t, err, inventory.ErrUnknownSale)
	})
}

func TestEachComesInPagesAndEndsWithTheErrorOfItsCaller(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		const n = 2*inventory.ArchiveSlice + 1
		for at := 0; at < n; at += 67 {
			var rows []inventory.Reservation
			for i := at; i < min(at+67, n); i++ {
				rows = append(rows, row(i, inventory.Confirmed, 1))
			}
			save(t, d, plan(n), rows...)
		}
		if all := checkArchive(t, d, "sale-1"); len(all) != n {
			t.Fatalf("%d rows, want %d", len(all), n)
		}
		calls := 0
		err := d.Each(t.Context(), "sale-1", func(inventory.Reservation) error { calls++; return inventory.ErrUnavailable })
		if calls != 1 || !errors.Is(err, inventory.ErrUnavailable) {
			t.Fatalf("%d calls, error %v", calls, err)
		}
		must(t, d.Each(t.Context(), "no-sale", func(inventory.Reservation) error { t.Fatal("a row of no sale"); return nil }))
		_, err = d.Find(t.Context(), "nobody")
		wantError(t, err, inventory.ErrUnknownReservation)
	})
}

func TestTheDatabaseItselfRefusesMoreThanTheTotal(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		save(t, d, plan(2), row(1, inventory.Confirmed, 2))
		for _, change := range []string{"sold = 3", "sold = -1", "total = 1"} {
			if _, err := d.write.Exec("UPDATE sales SET " + change); err == nil {
				t.Errorf("%s was taken", change)
			}
		}
		wantSold(t, d, 2)
	})
}
