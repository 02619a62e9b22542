package archive

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"weir/inventory"
)

// Find is one reservation, or inventory.ErrUnknownReservation.
func (d *DB) Find(ctx context.Context, id string) (inventory.Reservation, error) {
	return d.find(ctx, d.read, id)
}

func (d *DB) find(ctx context.Context, q querier, id string) (inventory.Reservation, error) {
	list, err := d.list(ctx, q, "WHERE id = $1", toText(id))
	switch {
	case err != nil:
		return inventory.Reservation{}, fmt.Errorf("archived reservation %s: %w", id, err)
	case len(list) == 0:
		return inventory.Reservation{}, fmt.Errorf("archived reservation %q: %w", id, inventory.ErrUnknownReservation)
	}
	return list[0], nil
}

// Sale is what is archived of a sale, or inventory.ErrUnknownSale.
func (d *DB) Sale(ctx context.Context, id string) (inventory.ArchivedSale, error) {
	s, err := d.sale(ctx, d.read, id, "")
	return inventory.ArchivedSale{Plan: s.plan, Sold: s.sold, Left: s.sealed}, err
}

// Seal notes that the sale's keys are deleted, see inventory.Archive.
func (d *DB) Seal(ctx context.Context, id string, left inventory.Desired) error {
	return d.transaction(ctx, func(tx *sql.Tx) error {
		s, err := d.sale(ctx, tx, id, d.dialect.lockRow)
		if err != nil || s.sealed == left {
			return err
		}
		_, err = tx.ExecContext(ctx, d.dialect.text("UPDATE sales SET sealed = $1 WHERE id = $2"), string(left), id)
		return unavailable(err)
	})
}

// saleRow is a row of sales.
type saleRow struct {
	plan    inventory.Sale
	version int64
	total   int64
	sold    int64
	sealed  inventory.Desired
}

func (d *DB) sale(ctx context.Context, q querier, id, lock string) (saleRow, error) {
	var s saleRow
	var plan []byte
	row := q.QueryRowContext(ctx, d.dialect.text("SELECT plan, version, total, sold, sealed FROM sales WHERE id = $1")+lock, toText(id))
	err := row.Scan(&plan, &s.version, &s.total, &s.sold, &s.sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("archived sale %q: %w", id, inventory.ErrUnknownSale)
	}
	if err == nil {
		err = json.Unmarshal(plan, &s.plan)
	}
	if err != nil {
		return s, fmt.Errorf("archived sale %s: %w", id, unavailable(err))
	}
	return s, nil
}

// Each calls fn for every reservation of a sale, in the order of their ids, a
// slice in memory at a time and with no transaction open: what changes
// meanwhile is seen in either state. An error of fn ends it. Nothing archived
// is no error.
func (d *DB) Each(ctx context.Context, sale string, fn func(inventory.Reservation) error) error {
	for last := ""; ; {
		page, err := d.list(ctx, d.read, "WHERE sale = $1 AND id > $2 ORDER BY id LIMIT $3", toText(sale), last, inventory.ArchiveSlice)
		if err != nil {
			return fmt.Errorf("archived reservations of %s: %w", sale, err)
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
		if len(page) < inventory.ArchiveSlice {
			return nil
		}
		last = page[len(page)-1].ID
	}
}
