package inventory

// Kind is a sort of difference, a stable word.
type Kind string

const (
	// KindOversold: the shop's standing orders hold more units than the sale.
	KindOversold Kind = "oversold"
	// KindLost: the shop has an order that the ledger does not know.
	KindLost Kind = "lost"
	// KindLostArchived: the archive has a unit as taken that the ledger does not know.
	KindLostArchived Kind = "lost_archived"
	// KindDeficit: a lost one for which no unit is left.
	KindDeficit Kind = "deficit"
	// KindUnconfirmed: reserved, and the shop has the order.
	KindUnconfirmed Kind = "unconfirmed"
	// KindUnfreed: reserved beyond its hold, and the shop has no order.
	KindUnfreed Kind = "unfreed"
	// KindUnanswered: reserved beyond its hold, and the shop cannot say.
	KindUnanswered Kind = "unanswered"
	// KindLatePayment: expired, and the shop has the order.
	KindLatePayment Kind = "late_payment"
	// KindUnpaid: expired, and the shop still has an unpaid order.
	KindUnpaid Kind = "unpaid_order"
	// KindOrphan: given back, and the shop has an order.
	KindOrphan Kind = "orphan_order"
	// KindRefund: refund due, and the shop still has the order.
	KindRefund Kind = "refund_due"
	// KindMissing: sold, and the shop has no order.
	KindMissing Kind = "missing_order"
	// KindCancelled: taken, and the shop's order is cancelled.
	KindCancelled Kind = "cancelled_order"
	// KindDouble: the shop has two orders of one reservation.
	KindDouble Kind = "double_order"
	// KindForeign: the shop names a reservation that is none of this sale.
	KindForeign Kind = "foreign_order"
	// KindMismatch: user or quantity differ.
	KindMismatch Kind = "mismatch"
	// KindUnclear: the shop's list and its answer differ.
	KindUnclear Kind = "shop_unclear"
	// KindLedgerBehind: the archive is further than the ledger.
	KindLedgerBehind Kind = "ledger_behind"
	// KindContradiction: no history has both what ledger and archive say.
	KindContradiction Kind = "contradiction"
	// KindArchiveBehind: the ledger is further than the archive. One difference
	// for all of them; without Apply the copier does it in time.
	KindArchiveBehind Kind = "archive_behind"
	// KindArchiveRefuses: the archive does not take it, more would be sold than there is.
	KindArchiveRefuses Kind = "archive_refuses"
)

// remedyOf is the remedy of what a person must see to.
func remedyOf(k Kind) string {
	switch k {
	case KindOversold:
		return "The shop must cancel orders until they fit, or deliver from the safety stock; pause the sale until then."
	case KindDeficit:
		return "No unit is left for it: cancel the order in the shop and give the money back, or deliver from the safety stock."
	case KindUnanswered:
		return "Look in the shop whether it has the order, then confirm or release the reservation."
	case KindUnpaid:
		return "Cancel the order in the shop: its time to pay is over and its unit may be sold again."
	case KindOrphan:
		return "Cancel the order in the shop and give the money back: its unit was given back and may be sold again."
	case KindRefund:
		return "Give the money back and cancel the order in the shop: no unit was left for it."
	case KindMissing:
		return "Find out why the shop has no order. If it shall have none, release the reservation: the unit is sold again."
	case KindDouble:
		return "Cancel all but one of the orders in the shop: the reservation holds its units once."
	case KindForeign:
		return "Find out where the order comes from; weir holds no unit for it."
	case KindMismatch:
		return "Find out which of them is right, and correct the order in the shop or release the reservation."
	case KindUnclear:
		return "Reconcile again; if it stays, correct the shop's list or its answer."
	case KindContradiction:
		return "Find out which of them is right; neither overwrites the other."
	case KindArchiveRefuses:
		return "More would be sold than the sale had: find the one that is too many and cancel it."
	}
	return "A person must look."
}

// step is one act on the books.
type step uint8

const (
	stepRestoreReserved step = iota + 1
	stepRestoreConfirmed
	stepAccept
	stepConfirm
	stepRelease
	stepExpire
)

func (s step) words() string {
	switch s {
	case stepRestoreReserved:
		return "Put the reservation back into the ledger."
	case stepRestoreConfirmed:
		return "Put the sold unit back into the ledger."
	case stepAccept:
		return "Note the order; the unit stays reserved until it is paid."
	case stepConfirm:
		return "Confirm it: sold, or refund due if it has expired and no unit is left."
	case stepRelease:
		return "Give the unit back."
	case stepExpire:
		return "Let the hold expire."
	}
	return ""
}
