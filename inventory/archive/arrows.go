package archive

import "weir/inventory"

// arrows are the steps of a reservation, see inventory.State.
func arrows(from inventory.State) []inventory.State {
	switch from {
	case inventory.Reserved:
		return []inventory.State{inventory.Confirmed, inventory.Released, inventory.Expired}
	case inventory.Expired:
		return []inventory.State{inventory.Confirmed, inventory.RefundDue}
	case inventory.Confirmed:
		return []inventory.State{inventory.Returned}
	}
	return nil // released, refund due, returned and the tombstone are ends
}

// leads says whether to can be reached from from by one arrow or more. The
// arrows have no circle.
func leads(from, to inventory.State) bool {
	for _, next := range arrows(from) {
		if next == to || leads(next, to) {
			return true
		}
	}
	return false
}

func known(s inventory.State) bool {
	switch s {
	case inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Expired,
		inventory.RefundDue, inventory.Returned, inventory.Cancelled:
		return true
	}
	return false
}

// step is what became of one offered reservation.
type step int

const (
	stays      step = iota // the stored one is as far or further
	moves                  // it is to be written
	contradict             // no history has both: the stored one stays, people must look
)

// merge lays an offered copy of a reservation, which may be stale, over the
// stored one.
func merge(stored, offered inventory.Reservation) (inventory.Reservation, step) {
	if stored.Sale != offered.Sale || stored.Quantity != offered.Quantity || stored.User != offered.User || stored.Item != offered.Item || stored.Kind != offered.Kind {
		return stored, contradict
	}
	merged := offered
	if merged.ShopOrder == "" {
		merged.ShopOrder = stored.ShopOrder
	}
	merged.Attempt = max(stored.Attempt, offered.Attempt)
	switch {
	case stored.State == offered.State:
		// No number orders two copies in one state but the attempt's.
		if offered.Attempt < stored.Attempt || merged == stored {
			return stored, stays
		}
		return merged, moves
	case leads(stored.State, offered.State):
		return merged, moves
	case leads(offered.State, stored.State):
		return stored, stays
	}
	return stored, contradict
}

// units is how many confirmed units a reservation counts.
func units(r inventory.Reservation) int64 {
	if r.State == inventory.Confirmed {
		return r.Quantity
	}
	return 0
}
