package inventory

// verdict is what to do about one reservation. The zero one: nothing.
type verdict struct {
	kind  Kind
	steps []step // none: a person
}

func person(k Kind) verdict             { return verdict{kind: k} }
func act(k Kind, steps ...step) verdict { return verdict{kind: k, steps: steps} }
func (v verdict) isNothing() bool       { return v.kind == "" }

// rank: what gives units back comes before what needs some, lost sales come
// before late payments, and what is left to a person comes last.
func (v verdict) rank() int {
	if len(v.steps) == 0 {
		return 3
	}
	switch v.steps[len(v.steps)-1] {
	case stepExpire, stepRelease:
		return 0
	case stepRestoreReserved, stepRestoreConfirmed:
		return 1
	}
	return 2
}

func when(condition bool, v verdict) verdict {
	if condition {
		return v
	}
	return verdict{}
}

// rules are what of the plan decides.
type rules struct {
	paysLater bool // settle: payment
	asks      bool // expiry: ask
	gone      bool // the archive stands for the ledger
}

// judge decides about one reservation. It is pure; "the archive is behind" is
// not its matter, see behind.
func (p rules) judge(f facts) verdict {
	switch {
	case f.shop == shopUnclear:
		return person(KindUnclear)
	case f.double:
		return person(KindDouble)
	case f.mismatched():
		return person(KindMismatch)
	}
	switch f.ledger.state {
	case noRecord:
		return p.forgotten(f)
	case isReserved:
		return p.reserved(f)
	case isConfirmed:
		return confirmed(f)
	case isExpired:
		return p.expired(f)
	case isRefundDue:
		return first(when(f.archive.state == isConfirmed, person(KindContradiction)), when(f.shop.stands(), person(KindRefund)))
	}
	// Released, returned, a tombstone: the units are back.
	lost := f.archive.state == isConfirmed && f.ledger.state != isReturned
	return first(when(lost, person(KindContradiction)), when(f.shop.stands(), person(KindOrphan)))
}

// first is the first verdict that says something.
func first(all ...verdict) verdict {
	for _, v := range all {
		if !v.isNothing() {
			return v
		}
	}
	return verdict{}
}

// sells: what the shop has is enough to call the unit sold.
func (p rules) sells(s shopNo) bool { return s == shopPaid || s == shopPlaced && !p.paysLater }

// forgotten: the ledger has no record of it.
func (p rules) forgotten(f facts) verdict {
	if f.shop.stands() {
		switch {
		case f.odd:
			return person(KindMismatch)
		case f.archive.state == isRefundDue:
			return person(KindRefund)
		case f.archive.state == isReleased, f.archive.state == isReturned, f.archive.state == isCancelled:
			return person(KindOrphan)
		case p.sells(f.shop), f.archive.state == isConfirmed:
			return act(KindLost, stepRestoreConfirmed)
		case f.archive.state == isExpired, p.gone:
			return person(KindUnpaid)
		}
		return act(KindLost, stepRestoreReserved)
	}
	switch f.archive.state {
	case isConfirmed:
		if f.shop == shopUnknown {
			return act(KindLostArchived, stepRestoreConfirmed)
		}
		return person(KindMissing)
	case isReserved:
		switch {
		case !f.due && f.shop != shopCancelled:
			return act(KindLostArchived, stepRestoreReserved)
		case f.due && f.shop == shopUnknown && p.asks:
			return person(KindUnanswered)
		}
	}
	return verdict{} // it holds no unit, and none is missing
}

func (p rules) reserved(f facts) verdict {
	if f.running {
		return verdict{} // whoever runs the attempt settles it
	}
	if v, ok := p.reservedBehind(f); ok {
		return v
	}
	switch {
	case p.sells(f.shop):
		return act(KindUnconfirmed, stepConfirm)
	case f.shop == shopPlaced && p.gone:
		return person(KindUnpaid)
	case f.shop == shopPlaced:
		return when(f.open, act(KindUnconfirmed, stepAccept))
	case f.shop == shopCancelled:
		return act(KindCancelled, stepRelease)
	case f.shop == shopNone:
		return when(f.due, act(KindUnfreed, stepExpire))
	}
	return when(f.due && f.open && p.asks, person(KindUnanswered))
}

// reservedBehind: the archive may be further; a server that forgot its last
// second has it so.
func (p rules) reservedBehind(f facts) (verdict, bool) {
	switch f.archive.state {
	case isConfirmed:
		switch {
		case f.shop == shopCancelled:
			return act(KindCancelled, stepConfirm, stepRelease), true
		case f.shop == shopNone:
			return person(KindMissing), true
		}
		return act(KindLedgerBehind, stepConfirm), true
	case isReleased, isReturned:
		switch {
		case f.shop.stands():
			return person(KindOrphan), true
		case f.archive.state == isReleased:
			return act(KindLedgerBehind, stepRelease), true
		}
		return act(KindLedgerBehind, stepConfirm, stepRelease), true
	case isExpired:
		if !p.sells(f.shop) {
			return when(f.due, act(KindLedgerBehind, stepExpire)), true
		}
	case isRefundDue, isCancelled:
		return person(KindContradiction), true
	}
	return verdict{}, false
}

func confirmed(f facts) verdict {
	switch f.archive.state {
	case isReturned:
		return first(when(f.shop.stands(), person(KindOrphan)), act(KindLedgerBehind, stepRelease))
	case isReleased, isCancelled, isRefundDue:
		return person(KindContradiction)
	}
	return first(when(f.shop == shopCancelled, act(KindCancelled, stepRelease)), when(f.shop == shopNone, person(KindMissing)))
}

func (p rules) expired(f facts) verdict {
	switch f.archive.state {
	case isConfirmed:
		if f.shop.stands() || f.shop == shopUnknown {
			return act(KindLedgerBehind, stepConfirm)
		}
		return person(KindMissing)
	case isRefundDue:
		return when(f.shop.stands(), person(KindRefund))
	case isReleased, isReturned, isCancelled:
		return when(f.shop.stands(), person(KindOrphan))
	}
	switch {
	case p.sells(f.shop):
		return act(KindLatePayment, stepConfirm)
	case f.shop == shopPlaced:
		return person(KindUnpaid)
	}
	return verdict{}
}

// behind: the ledger has what the archive has not, and a copy would be taken.
func behind(f facts) bool {
	return f.ledger.state != noRecord && f.archive.state.leads(f.ledger.state) && !f.ledger.differs(f.archive)
}

func (s side) differs(o side) bool {
	return s.user != 0 && o.user != 0 && s.user != o.user || s.units != 0 && o.units != 0 && s.units != o.units
}
