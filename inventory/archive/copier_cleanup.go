package archive

import (
	"context"
	"fmt"

	"weir/inventory"
)

// cleanup deletes the sale in Redis if the pass before and a second look prove
// that the archive has all of it. The time is that of Redis, not of this host.
func (c *Copier) cleanup(ctx context.Context, done *Copied) error {
	if !done.Complete {
		return fmt.Errorf("sale %s stays in Redis: %s", done.Sale, done.Missing)
	}
	kept, err := c.config.Archive.Sale(ctx, done.Sale)
	if err != nil {
		return err
	}
	if done.Level.At.Before(kept.Plan.EndAt.Add(c.config.Horizon)) {
		return nil
	}
	if err := c.prove(ctx, done); err != nil {
		return fmt.Errorf("sale %s stays in Redis: %w", done.Sale, err)
	}
	if err := c.config.Source.Cleanup(ctx, done.Sale); err != nil {
		return fmt.Errorf("cleaning up sale %s: %w", done.Sale, err)
	}
	done.Deleted = true
	c.config.Log.Info("archive: sale deleted from Redis", "sale", done.Sale, "rows", done.Rows)
	return nil
}

// prove compares every reservation of the ledger with the archived one. Equal
// sums are not enough: two contradictions may cancel each other out. It costs a
// read per reservation, once in the life of a sale. What changes meanwhile, the
// copy within Cleanup brings.
func (c *Copier) prove(ctx context.Context, done *Copied) error {
	rows, archived := int64(0), int64(0)
	err := c.config.Source.Ledger(ctx, done.Sale, func(r inventory.Reservation) error {
		rows++
		kept, err := c.config.Archive.Find(ctx, r.ID)
		if err == nil && (kept.State != r.State || kept.Quantity != r.Quantity || kept.User != r.User) {
			err = fmt.Errorf("reservation %s is %s in the ledger, %s in the archive", r.ID, r.State, kept.State)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = c.config.Archive.Each(ctx, done.Sale, func(r inventory.Reservation) error {
		if r.State == inventory.Reserved {
			return fmt.Errorf("archived reservation %s is still reserved, and the ledger has forgotten it", r.ID)
		}
		archived++
		return nil
	})
	if err == nil && archived < rows {
		err = fmt.Errorf("the archive has %d reservations, the ledger %d", archived, rows)
	}
	return err
}
