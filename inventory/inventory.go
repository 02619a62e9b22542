// Package inventory keeps the stock of a sale: never below zero, never lost,
// each order once.
//
// All state lies in Redis and every step is one Lua script, so a step either
// happened whole or not at all. Reserve takes a unit for an order, Confirm
// marks it sold, Release gives it back, and a hold that nobody settles expires.
// Asking twice gets the earlier answer.
package inventory

import (
	"errors"
	"time"
)

// State is where a reservation stands. Each arrow is taken once:
// reserved → confirmed | released | expired, expired → confirmed | refund_due,
// confirmed → returned.
type State string

const (
	Reserved  State = "reserved"
	Confirmed State = "confirmed"
	Released  State = "released"
	Expired   State = "expired"
	RefundDue State = "refund_due"
	Returned  State = "returned"
	// Cancelled is a tombstone: the release came before the reserve.
	Cancelled State = "cancelled"
)

// Code is the answer of the reserve script. It speaks of one bucket.
type Code int

const (
	Known        Code = 0  // the id is known; its stored state follows
	NotEnough    Code = 1  // not enough units here, nothing taken
	TakenLast    Code = 2  // taken, none left here: a win
	Taken        Code = 3  // taken, some left: a win
	NotPreheated Code = -1 // no stock was ever written here: never "sold out"
	Tombstoned   Code = -2 // cancelled before it came
	BuyerLimit   Code = -3 // the buyer has his units already
	NotRunning   Code = -4 // by this bucket's Redis time
	Stale        Code = -5 // generation or server run is not the one armed
	Mismatch     Code = -6 // same id, different order; the stored one follows
	NoneFreeNow  Code = -7 // none free, holds outstanding: ask again
)

// Order is one wish to take stock. It owns its strings.
type Order struct {
	ID       string // idempotency key, made by NewOrderID or DeriveOrderID
	Sale     string
	Item     string
	User     string
	Quantity int64 // whole units, 1 … Sale.MaxQuantity
	// Kind says for what kind of document the unit is taken, e.g. "loan"; up
	// to 16 of a-z 0-9 - ; "" is an order of the shop.
	Kind string
	// AttemptFor is how long the forward that follows may run; the script
	// grants it to one caller at a time.
	AttemptFor time.Duration
}

// Reservation is the ledger's record of an order.
type Reservation struct {
	ID           string    `json:"id"`
	Sale         string    `json:"sale"`
	Item         string    `json:"item"`
	User         string    `json:"user"`
	Kind         string    `json:"kind,omitempty"` // kind of document, "" = order
	Quantity     int64     `json:"quantity"`
	State        State     `json:"state"`
	ReservedAt   time.Time `json:"reserved_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	Attempt      int       `json:"attempt"`                // number of the last attempt granted, from 1
	AttemptUntil time.Time `json:"attempt_until,omitzero"` // zero when no attempt runs
	ShopOrder    string    `json:"order,omitempty"`
	Stuck        bool      `json:"stuck,omitempty"`      // the shop could not say whether it has an order
	Bucket       int       `json:"bucket"`               // where it lies
	InPayment    bool      `json:"in_payment,omitempty"` // its hold was extended, once
}

// Result is what Reserve found or did.
type Result struct {
	Code        Code
	Reservation Reservation // set for Known, Taken, TakenLast and Mismatch
	// Granted says that this caller owns attempt Reservation.Attempt and must
	// settle it; with Known and false another attempt runs or none may start.
	Granted   bool
	Available int64 // free units, for NotEnough
	// FromMemory: the ledger was not asked about this order, or not to the end of
	// its wait. For NotEnough and NoneFreeNow.
	FromMemory bool
	Until      time.Time // for NoneFreeNow: the earliest hold deadline known, or zero
}

// Level is a reading of a sale's stock. Total = Free + Reserved + Confirmed + OnLoan.
type Level struct {
	Sale      string    `json:"sale"`
	Total     int64     `json:"total"` // excludes the safety stock
	Free      int64     `json:"free"`
	Reserved  int64     `json:"reserved"`
	Confirmed int64     `json:"confirmed"`
	OnLoan    int64     `json:"on_loan"`
	Seq       int64     `json:"seq"` // counts changes of the ledger
	At        time.Time `json:"at"`  // Redis time of the reading
	// Buckets are its parts, in order; the sums above are theirs.
	Buckets []BucketLevel `json:"buckets"`
}

// BucketLevel is a reading of one bucket:
// Planned + LentIn = LentOut + Free + Reserved + Confirmed.
type BucketLevel struct {
	Index     int    `json:"index"`
	Tag       string `json:"tag"` // hash tag of its keys
	Planned   int64  `json:"planned"`
	LentIn    int64  `json:"lent_in"`
	LentOut   int64  `json:"lent_out"`
	Free      int64  `json:"free"`
	Reserved  int64  `json:"reserved"`
	Confirmed int64  `json:"confirmed"`
	Seq       int64  `json:"seq"`
	Run       string `json:"run"` // run_id of the server that it is armed under
}

var (
	// ErrInvalidSale: a sale that cannot be planned.
	ErrInvalidSale = errors.New("invalid sale")
	// ErrInvalidPreheat: a split that must not be written.
	ErrInvalidPreheat = errors.New("invalid preheat")
	// ErrInvalidOrder: an order that no script would take; nothing was sent.
	ErrInvalidOrder = errors.New("invalid order")
	// ErrVersionReused: the id and version exist with another plan.
	ErrVersionReused = errors.New("sale version exists with another plan")
	// ErrSaleStarted: a preheat over a sale that has started.
	ErrSaleStarted = errors.New("sale has started")
	// ErrStockLost: Redis has forgotten a sale that had sold; it is not begun anew.
	ErrStockLost = errors.New("Redis has lost this sale")
	// ErrUnknownSale: no such sale is preheated.
	ErrUnknownSale = errors.New("unknown sale")
	// ErrUnknownReservation: the ledger has no such id.
	ErrUnknownReservation = errors.New("unknown reservation")
	// ErrRecorded: what was wanted of a sale is recorded for good, and is brought
	// to each bucket, or shown, as soon as that answers. Its cause stands beside it.
	ErrRecorded = errors.New("recorded, and not yet everywhere")
	// ErrNotAllowed: the arrow does not exist from the stored state; the
	// reservation is returned beside it.
	ErrNotAllowed = errors.New("not allowed in this state")
	// ErrAttemptOver: another attempt has been granted since.
	ErrAttemptOver = errors.New("attempt is no longer current")
	// ErrOversold: the archive would hold more sold units than the sale had.
	ErrOversold = errors.New("more sold than the sale had")
	// ErrDeficit: a sold unit has no place in the books: more is sold than there is.
	ErrDeficit = errors.New("no unit is left for it")
	// ErrUnavailable: the script was not executed for certain.
	ErrUnavailable = errors.New("stock unavailable")
	// ErrArchiveUnavailable is an ErrUnavailable: the archive does not answer, or
	// there is none.
	ErrArchiveUnavailable error = archiveAway{}
	// ErrOutcomeUnknown: the script may have been executed. Ask again with the same id.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)
