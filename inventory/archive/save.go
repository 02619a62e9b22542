package archive

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"weir/inventory"
)

// Save stores at most inventory.ArchiveSlice reservations of one sale in one
// transaction, see inventory.Archive. Writers of one sale queue on its row, so
// two that save the same slice at once store it once. The plan with the highest
// version is kept. Where no history of a reservation holds both the stored
// state and the offered one, the stored one stays and the log says so.
// inventory.ErrOversold, and nothing stored, also when a newer plan's total is
// below what is sold. Rows that do not belong here are an error of the caller.
func (d *DB) Save(ctx context.Context, sale inventory.Sale, rows []inventory.Reservation) error {
	if err := checkSlice(sale, rows); err != nil {
		return fmt.Errorf("archiving sale %s: %w", sale.ID, err)
	}
	if d.holds(ctx, sale, rows) {
		return nil
	}
	var odd []conflict
	err := d.transaction(ctx, func(tx *sql.Tx) error {
		stored, err := d.lockSale(ctx, tx, sale)
		if err != nil {
			return err
		}
		c, err := d.compare(ctx, tx, rows)
		if err != nil {
			return err
		}
		odd = c.conflicts
		if err := d.store(ctx, tx, c.writes); err != nil {
			return err
		}
		return d.count(ctx, tx, stored, c.delta)
	})
	if err != nil {
		return fmt.Errorf("archiving sale %s: %w", sale.ID, err)
	}
	d.report(odd)
	return nil
}

func checkSlice(sale inventory.Sale, rows []inventory.Reservation) error {
	if err := sale.Validate(); err != nil {
		return err
	}
	if len(rows) > inventory.ArchiveSlice {
		return fmt.Errorf("%d rows, at most %d travel at once", len(rows), inventory.ArchiveSlice)
	}
	for _, r := range rows {
		switch {
		case r.Sale != sale.ID:
			return fmt.Errorf("reservation %q belongs to sale %q", r.ID, r.Sale)
		case r.ID == "" || toText(r.ID) != r.ID:
			return fmt.Errorf("reservation %q: not an id", r.ID)
		case r.Quantity < 0:
			return fmt.Errorf("reservation %s: quantity %d", r.ID, r.Quantity)
		case !known(r.State):
			return fmt.Errorf("reservation %s: unknown state %q", r.ID, r.State)
		}
	}
	return nil
}

// holds says whether all of it is stored already. States only move forward, so
// a yes stays true; a repeated copy then locks nothing.
func (d *DB) holds(ctx context.Context, sale inventory.Sale, rows []inventory.Reservation) bool {
	var version int64
	err := d.read.QueryRowContext(ctx, d.dialect.text("SELECT version FROM sales WHERE id = $1"), sale.ID).Scan(&version)
	if err != nil || version < sale.Version {
		return false // the transaction will say what is wrong, if anything is
	}
	c, err := d.compare(ctx, d.read, rows)
	if err != nil || len(c.writes) > 0 {
		return false
	}
	d.report(c.conflicts)
	return true
}

// lockSale makes or updates the sale's row and holds it until the end.
func (d *DB) lockSale(ctx context.Context, tx *sql.Tx, sale inventory.Sale) (saleRow, error) {
	plan, err := json.Marshal(sale)
	if err != nil {
		return saleRow{}, err
	}
	at := d.now().UnixMilli()
	_, err = tx.ExecContext(ctx, d.dialect.text(`INSERT INTO sales (id, plan, version, total, archived_at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`), sale.ID, string(plan), sale.Version, sale.Total, at)
	if err != nil {
		return saleRow{}, unavailable(err)
	}
	stored, err := d.sale(ctx, tx, sale.ID, d.dialect.lockRow)
	if err != nil || stored.version >= sale.Version {
		return stored, err
	}
	if sale.Total < stored.sold {
		return stored, fmt.Errorf("version %d has %d units, %d are sold: %w", sale.Version, sale.Total, stored.sold, inventory.ErrOversold)
	}
	_, err = tx.ExecContext(ctx, d.dialect.text("UPDATE sales SET plan = $1, version = $2, total = $3, archived_at = $4 WHERE id = $5"),
		string(plan), sale.Version, sale.Total, at, sale.ID)
	stored.version, stored.total = sale.Version, sale.Total
	return stored, unavailable(err)
}

// store stores the rows in one statement.
func (d *DB) store(ctx context.Context, tx *sql.Tx, rows []inventory.Reservation) error {
	if len(rows) == 0 {
		return nil
	}
	at, args := d.now().UnixMilli(), make([]any, 0, len(rows)*width)
	for _, r := range rows {
		args = append(args, values(r, at)...)
	}
	_, err := tx.ExecContext(ctx, d.dialect.text(upsert(len(rows))), args...)
	return unavailable(err)
}

// count moves the sale's confirmed units. This condition is the last wall
// against overselling: it holds whatever Redis says.
func (d *DB) count(ctx context.Context, tx *sql.Tx, sale saleRow, delta int64) error {
	if delta == 0 {
		return nil
	}
	done, err := tx.ExecContext(ctx, d.dialect.text("UPDATE sales SET sold = sold + $1, archived_at = $2 WHERE id = $3 AND sold + $1 <= total"),
		delta, d.now().UnixMilli(), sale.plan.ID)
	if err != nil {
		return unavailable(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return unavailable(err)
	}
	if n == 0 {
		return fmt.Errorf("%d sold, %d more, total %d: %w", sale.sold, delta, sale.total, inventory.ErrOversold)
	}
	return nil
}
