package inventory

import (
	"crypto/sha256"
	"hash/fnv"
	"time"
)

// key is an order id without the tag of its sale: user's tag and own bytes.
type key [userTagBytes + ownBytes]byte

// keyOf is false for what is no order id of the sale.
func keyOf(sale, id string) (k key, ok bool) {
	if !ValidOrderID(id) || !isOfSale(id, sale) {
		return k, false
	}
	raw, err := orderIDText.DecodeString(id)
	if err != nil {
		return k, false
	}
	copy(k[:], raw[saleTagBytes:])
	return k, true
}

// id is the order id again.
func (k key) id(sale string) string {
	tag := sha256.Sum256([]byte(sale))
	return orderIDText.EncodeToString(append(tag[:saleTagBytes:saleTagBytes], k[:]...))
}

// ofUser says whether the id was made for that user. One without a user has
// random bytes there.
func (k key) ofUser(user string) bool {
	tag := sha256.Sum256([]byte(user))
	return user != "" && string(tag[:userTagBytes]) == string(k[:userTagBytes])
}

// stateNo is a State as a number; 0 is "there is no record".
type stateNo uint8

const (
	noRecord stateNo = iota
	isReserved
	isConfirmed
	isReleased
	isExpired
	isRefundDue
	isReturned
	isCancelled
)

func stateNames() [8]State {
	return [...]State{"", Reserved, Confirmed, Released, Expired, RefundDue, Returned, Cancelled}
}

func numberOf(s State) stateNo {
	for i, name := range stateNames() {
		if name == s {
			return stateNo(i)
		}
	}
	return noRecord
}

func (n stateNo) name() State { return stateNames()[n] }

// leads says whether later can be reached from n by one arrow or more, see State.
func (n stateNo) leads(later stateNo) bool {
	switch n {
	case noRecord:
		return later != noRecord
	case isReserved:
		return later != noRecord && later != isReserved && later != isCancelled
	case isExpired:
		return later == isConfirmed || later == isRefundDue || later == isReturned
	case isConfirmed:
		return later == isReturned
	}
	return false
}

// shopNo is what the shop says.
type shopNo uint8

const (
	shopUnknown shopNo = iota // it cannot say
	shopNone                  // it has no order, for sure
	shopPlaced
	shopPaid
	shopCancelled
	shopUnclear // its list and its answer differ
)

func (n shopNo) name() string {
	return [...]string{"?", "", OrderPlaced, OrderPaid, OrderCancelled, "unclear"}[n]
}

func (n shopNo) stands() bool { return n == shopPlaced || n == shopPaid }

func shopNumber(state string) (shopNo, bool) {
	switch state {
	case OrderPlaced:
		return shopPlaced, true
	case OrderPaid:
		return shopPaid, true
	case OrderCancelled:
		return shopCancelled, true
	}
	return shopUnknown, false
}

// facts are all that is kept of one reservation while the sources are read.
// User and quantity are hashes, 0 = not told: two that differ go unnoticed once
// in 2³².
type facts struct {
	ledger, archive side
	shop            shopNo
	seen            bool // the list names it
	double          bool // with two orders that stand
	due             bool // its hold is over, by a grace
	open            bool // an attempt is unsettled
	running         bool // and not over yet
	odd             bool // more units than one order may have
	touched         bool // a step of ours changed the ledger
	shopUser        uint32
	shopUnits       uint32
	shopOrder       uint32
}

// side is what ledger or archive say.
type side struct {
	state       stateNo
	user, units uint32
}

func hashOf(text string) uint32 {
	if text == "" {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(text))
	return max(h.Sum32(), 1)
}

func unitsOf(n int64) uint32 {
	if n == 0 {
		return 0
	}
	return max(uint32(n)^uint32(n>>32), 1)
}

func sideOf(r Reservation) side {
	if r.State == Cancelled {
		return side{state: isCancelled} // a tombstone knows neither
	}
	return side{state: numberOf(r.State), user: hashOf(r.User), units: unitsOf(r.Quantity)}
}

// reconcileGrace is how long after a hold's end it counts as over here: the
// shop's clock, by which it refuses, may be behind.
const reconcileGrace = time.Second

// setTimes reads the deadlines of a record, as of at.
func (f *facts) setTimes(r Reservation, at time.Time) {
	f.due = !r.ExpiresAt.Add(reconcileGrace).After(at)
	f.open = !r.AttemptUntil.IsZero() || r.Stuck
	f.running = r.AttemptUntil.After(at)
}

func (f *facts) setShop(o ShopOrder, plan Sale) {
	f.shop, _ = shopNumber(o.State)
	f.shopUser, f.shopUnits, f.shopOrder = hashOf(o.User), unitsOf(o.Quantity), hashOf(o.Order)
	f.odd = o.Quantity > plan.MaxQuantity
}

// mismatched: two that tell a user, or a quantity, tell different ones.
func (f facts) mismatched() bool {
	differ := func(values ...uint32) bool {
		first := uint32(0)
		for _, v := range values {
			if v != 0 && first != 0 && v != first {
				return true
			}
			first = max(first, v)
		}
		return false
	}
	return differ(f.ledger.user, f.archive.user, f.shopUser) || differ(f.ledger.units, f.archive.units, f.shopUnits)
}
