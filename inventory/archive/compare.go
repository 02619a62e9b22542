package archive

import (
	"context"

	"weir/inventory"
)

type conflict struct{ stored, offered inventory.Reservation }

// comparison is what a slice changes.
type comparison struct {
	writes    []inventory.Reservation
	delta     int64 // confirmed units more
	conflicts []conflict
}

// compare lays the offered rows over the stored ones. A row may come twice in
// a slice, as HSCAN gives it.
func (d *DB) compare(ctx context.Context, q querier, rows []inventory.Reservation) (comparison, error) {
	var c comparison
	if len(rows) == 0 {
		return c, nil
	}
	ids := make([]any, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	list, err := d.list(ctx, q, "WHERE id IN ("+parameters(1, len(ids))+")", ids...)
	if err != nil {
		return c, err
	}
	stored := make(map[string]inventory.Reservation, len(rows))
	for _, r := range list {
		stored[r.ID] = r
	}
	written := map[string]int{} // id → its place in writes
	for _, r := range rows {
		r = normal(r)
		old, exists := stored[r.ID]
		if exists {
			merged, what := merge(old, r)
			if what == contradict {
				c.conflicts = append(c.conflicts, conflict{stored: old, offered: r})
			}
			if what != moves {
				continue
			}
			r = merged
		}
		c.delta += units(r) - units(old)
		stored[r.ID] = r
		if at, again := written[r.ID]; again {
			c.writes[at] = r
			continue
		}
		written[r.ID] = len(c.writes)
		c.writes = append(c.writes, r)
	}
	return c, nil
}

func (d *DB) report(odd []conflict) {
	for _, c := range odd {
		d.log.Error("archive and ledger contradict each other; the archived one stays",
			"reservation", c.stored.ID, "sale", c.stored.Sale, "archived", c.stored.State, "ledger", c.offered.State,
			"archived_quantity", c.stored.Quantity, "ledger_quantity", c.offered.Quantity)
	}
}
