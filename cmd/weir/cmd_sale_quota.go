package main

import (
	"fmt"

	"weir/inventory"
)

// quotaRows say what of the shop's stock is frozen for a sale, and what is in the way.
func quotaRows(q inventory.QuotaState) [][]string {
	text := string(q.Stage)
	switch q.Stage {
	case inventory.QuotaFreezing, inventory.QuotaFrozen:
		text += fmt.Sprintf(", %d units", q.Units)
	case inventory.QuotaThawing, inventory.QuotaThawed:
		text += fmt.Sprintf(", %d of %d units back to the shop", q.Unsold, q.Units)
	}
	rows := [][]string{{"quota", text}}
	if q.Fault == "" {
		return rows
	}
	fault := q.Fault
	if !q.Next.IsZero() {
		fault += fmt.Sprintf(" (tried %d times, next %s)", q.Tries, stamp(&q.Next, ""))
	}
	return append(rows, []string{"quota fault", fault})
}
