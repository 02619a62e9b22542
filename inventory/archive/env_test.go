package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"weir/internal/pgtest"
	"weir/inventory"
)

var (
	_ inventory.Archive = (*DB)(nil)
	_ Source            = (*inventory.Store)(nil)
	_ Leases            = (*inventory.Store)(nil)
)

// postgres is one server for all tests of this program, started by the first.
var postgres struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childJob); job != "" {
		os.Exit(runChild(job))
	}
	code := m.Run()
	if postgres.server != nil {
		postgres.server.Close()
	}
	os.Exit(code)
}

func required() bool { return os.Getenv("WEIR_REQUIRE_REAL") == "1" }

// newPostgres is the DSN of an empty database.
func newPostgres(t testing.TB) string {
	t.Helper()
	postgres.once.Do(func() { postgres.server, postgres.err = pgtest.Launch(context.Background()) })
	switch {
	case errors.Is(postgres.err, pgtest.ErrMissing) && !required():
		t.Skip(postgres.err)
	case postgres.err != nil:
		t.Fatal(postgres.err)
	}
	return postgres.server.NewDatabase(t)
}

func newSQLite(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "archive.db") }

// eachDatabase runs the test on an empty archive of each kind.
func eachDatabase(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newPostgres(t)) })
}

// each is eachDatabase, opened.
func each(t *testing.T, test func(t *testing.T, d *DB)) {
	eachDatabase(t, func(t *testing.T, dsn string) { test(t, open(t, dsn)) })
}

func open(t testing.TB, dsn string, opts ...Option) *DB {
	t.Helper()
	d, err := Open(t.Context(), dsn, opts...)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// fataler is a test, also one of rapid.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

var saleStart = time.UnixMilli(1_800_000_000_123).UTC()

func plan(total int64) inventory.Sale {
	return inventory.Sale{
		ID: "sale-1", Version: 1, Item: "item-1", StartAt: saleStart, EndAt: saleStart.Add(time.Hour), Total: total,
		MaxQuantity: 10, Hold: 15 * time.Minute, Expiry: inventory.ExpiryFree, Settle: inventory.SettlePayment,
	}
}

// row is a reservation of plan's sale.
func row(n int, state inventory.State, quantity int64) inventory.Reservation {
	return inventory.Reservation{
		ID: fmt.Sprintf("id-%07d", n), Sale: "sale-1", Item: "item-1", User: fmt.Sprintf("user-%d", n), Quantity: quantity,
		State: state, ReservedAt: saleStart.Add(time.Duration(n) * time.Millisecond), ExpiresAt: saleStart.Add(15 * time.Minute), Attempt: 1,
	}
}

func save(t testing.TB, d *DB, sale inventory.Sale, rows ...inventory.Reservation) {
	t.Helper()
	must(t, d.Save(t.Context(), sale, rows))
	checkArchive(t, d, sale.ID)
}

// checkArchive proves the whole: sold is the sum of the confirmed, and no more than total.
func checkArchive(t fataler, d *DB, sale string) map[string]inventory.Reservation {
	t.Helper()
	all, confirmed := map[string]inventory.Reservation{}, int64(0)
	must(t, d.Each(context.Background(), sale, func(r inventory.Reservation) error {
		if _, twice := all[r.ID]; twice {
			t.Fatalf("%s came twice", r.ID)
		}
		all[r.ID] = r
		confirmed += units(r)
		return nil
	}))
	kept, err := d.Sale(context.Background(), sale)
	must(t, err)
	if kept.Sold != confirmed || kept.Sold > kept.Plan.Total {
		t.Fatalf("sold %d, confirmed rows hold %d, total %d", kept.Sold, confirmed, kept.Plan.Total)
	}
	return all
}

func wantSold(t testing.TB, d *DB, want int64) {
	t.Helper()
	kept, err := d.Sale(t.Context(), "sale-1")
	must(t, err)
	if kept.Sold != want {
		t.Fatalf("sold %d, want %d", kept.Sold, want)
	}
}

func wantState(t testing.TB, d *DB, id string, want inventory.State) inventory.Reservation {
	t.Helper()
	r, err := d.Find(t.Context(), id)
	must(t, err)
	if r.State != want {
		t.Fatalf("%s is %s, want %s", id, r.State, want)
	}
	return r
}

// eventually asks until the condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited 20s: %s", what)
		case <-tick.C:
		}
	}
}
