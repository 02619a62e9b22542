package archive

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"weir/internal/pgtest"
	"weir/inventory"
)

var errCut = errors.New("the line was cut")

// cutter makes commits fail: before they reach the database, or after.
type cutter struct{ before, after bool }

func (c *cutter) option() Option {
	return func(o *options) {
		o.wrap = func(base driver.Connector) driver.Connector { return connector{base, c} }
	}
}

type connector struct {
	driver.Connector
	cut *cutter
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return connection{conn.(fullConn), c.cut}, nil
}

// fullConn is what both drivers' connections can.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type connection struct {
	fullConn
	cut *cutter
}

func (c connection) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return transaction{tx, c.cut}, err
}

type transaction struct {
	driver.Tx
	cut *cutter
}

func (t transaction) Commit() error {
	if t.cut.before {
		return errors.Join(errCut, t.Rollback())
	}
	err := t.Tx.Commit()
	if t.cut.after {
		return errCut
	}
	return err
}

// eachCut runs the act with commits that fail, and fail but are applied, then
// without.
func eachCut(t *testing.T, act func(t *testing.T, d *DB, cut *cutter)) {
	for name, cut := range map[string]*cutter{"failed": {before: true}, "failed but applied": {after: true}} {
		t.Run(name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, dsn string) {
				now := &cutter{}
				d := open(t, dsn, now.option())
				save(t, d, plan(5), row(9, inventory.Expired, 1))
				*now = *cut
				act(t, d, now)
			})
		})
	}
}

func TestASaveWhoseCommitFailedMayBeRepeated(t *testing.T) {
	eachCut(t, func(t *testing.T, d *DB, cut *cutter) {
		rows := []inventory.Reservation{row(1, inventory.Confirmed, 2), row(2, inventory.Returned, 1), row(3, inventory.Confirmed, 3)}
		wantError(t, d.Save(t.Context(), plan(5), rows), inventory.ErrOutcomeUnknown)
		checkArchive(t, d, "sale-1")
		*cut = cutter{}
		save(t, d, plan(5), rows...)
		save(t, d, plan(5), rows...)
		wantSold(t, d, 5)
		wantError(t, d.Save(t.Context(), plan(5), []inventory.Reservation{row(4, inventory.Confirmed, 1)}), inventory.ErrOversold)
	})
}

func TestASettleWhoseCommitFailedMayBeRepeated(t *testing.T) {
	eachCut(t, func(t *testing.T, d *DB, cut *cutter) {
		id := row(9, "", 0).ID
		_, err := d.Settle(t.Context(), id, inventory.Confirmed, 0, "order-1")
		wantError(t, err, inventory.ErrOutcomeUnknown)
		*cut = cutter{}
		for range 2 {
			r, err := d.Settle(t.Context(), id, inventory.Confirmed, 0, "order-1")
			must(t, err)
			if r.State != inventory.Confirmed || r.ShopOrder != "order-1" {
				t.Fatalf("got %+v", r)
			}
			checkArchive(t, d, "sale-1")
		}
		wantSold(t, d, 1)
	})
}

func TestACallWithoutTimeLeftStoresNothing(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		save(t, d, plan(5))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantError(t, d.Save(ctx, plan(5), []inventory.Reservation{row(1, inventory.Confirmed, 1)}), inventory.ErrUnavailable)
		wantSold(t, d, 0)
		save(t, d, plan(5), row(1, inventory.Confirmed, 1))
	})
}

func TestAKilledServerHasWhatItAcknowledged(t *testing.T) {
	server := pgtest.Start(t, required())
	d := open(t, server.NewDatabase(t))
	save(t, d, plan(5), row(1, inventory.Confirmed, 1))
	server.Kill()
	rows := []inventory.Reservation{row(2, inventory.Confirmed, 1)}
	wantError(t, d.Save(t.Context(), plan(5), rows), inventory.ErrUnavailable)
	_, err := d.Settle(t.Context(), rows[0].ID, inventory.Confirmed, 0, "")
	wantError(t, err, inventory.ErrUnavailable)
	_, err = d.Find(t.Context(), rows[0].ID)
	wantError(t, err, inventory.ErrUnavailable)
	must(t, server.Run(t.Context()))
	eventually(t, "the archive is back", func() bool { return d.Save(t.Context(), plan(5), rows) == nil })
	if all := checkArchive(t, d, "sale-1"); len(all) != 2 {
		t.Fatalf("%d rows, want 2", len(all))
	}
}
