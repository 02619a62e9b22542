package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Expiry says who may free a hold whose deadline has passed.
type Expiry string

const (
	// ExpiryFree: scripts free due holds by themselves; the shop must refuse
	// payment after the deadline it was told.
	ExpiryFree Expiry = "free"
	// ExpiryAsk: a forwarded hold of unknown outcome is freed only by Expire,
	// after the shop said that it has no order.
	ExpiryAsk Expiry = "ask"
)

// Settle says when a reservation counts as sold.
type Settle string

const (
	SettleAccept  Settle = "accept"  // confirmed when the shop accepts the order
	SettlePayment Settle = "payment" // reserved until the shop confirms the payment
)

// SaleState is where a sale stands at a moment.
type SaleState string

const (
	SaleDraft     SaleState = "draft" // planned, not preheated
	SalePending   SaleState = "pending"
	SaleRunning   SaleState = "running"
	SalePaused    SaleState = "paused"
	SaleEnded     SaleState = "ended"
	SaleCancelled SaleState = "cancelled"
)

// Desired is what the operator wants of a preheated sale.
type Desired string

const (
	DesiredOn        Desired = "on"
	DesiredPaused    Desired = "paused"
	DesiredCancelled Desired = "cancelled" // final for this version of the sale
)

// Sale is the plan of one sale of one item. Times are judged by the Redis
// clock in whole milliseconds; the sale is open in [StartAt, EndAt).
type Sale struct {
	ID      string `json:"id"`      // [A-Za-z0-9][A-Za-z0-9._-]{0,63}
	Version int64  `json:"version"` // from 1; a higher one replaces the plan before the start
	Item    string `json:"item"`    // same form as ID
	// StartAt zero means "opens the moment its preheat switches".
	StartAt time.Time `json:"starts_at"`
	EndAt   time.Time `json:"ends_at"`
	Total   int64     `json:"total"` // units on sale
	// SafetyStock is kept back for mishaps; it is not part of Total and weir
	// never sells it.
	SafetyStock int64         `json:"safety_stock"`
	Buckets     int           `json:"buckets"`      // parts of the stock, 0 = one per master
	BucketCap   int64         `json:"bucket_cap"`   // most units one bucket may hold, 0 = Total
	BuyerLimit  int64         `json:"buyer_limit"`  // units per user over the sale, 0 = none
	MaxQuantity int64         `json:"max_quantity"` // units per order, ≥ 1
	Hold        time.Duration `json:"hold"`         // time to pay, whole milliseconds
	Expiry      Expiry        `json:"expiry"`
	Settle      Settle        `json:"settle"`
}

// maxUnits keeps every number a script touches exact in a Lua double.
const maxUnits = int64(1) << 50

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Validate reports every fault of the plan, each as ErrInvalidSale with the
// field's name. It does not look at the clock.
func (s Sale) Validate() error {
	var faults []error
	check := func(ok bool, field, text string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%w: %s: %s", ErrInvalidSale, field, text))
		}
	}
	const name = "must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
	check(namePattern.MatchString(s.ID), "id", name)
	check(s.Version >= 1 && s.Version < maxUnits, "version", "must be 1 or more")
	check(namePattern.MatchString(s.Item), "item", name)
	check(!s.EndAt.IsZero(), "ends_at", "is missing")
	check(s.StartAt.IsZero() || s.EndAt.UnixMilli() > s.StartAt.UnixMilli(), "ends_at", "must be after starts_at")
	check(s.Total >= 0 && s.Total <= maxUnits, "total", "must be 0 or more")
	check(s.SafetyStock >= 0, "safety_stock", "must be 0 or more")
	check(s.Buckets >= 0 && s.Buckets <= maxBuckets, "buckets", "must be 0 (one per master) to 64")
	check(s.BucketCap >= 0, "bucket_cap", "must be 0 (no cap) or more")
	check(s.BuyerLimit >= 0 && s.BuyerLimit <= maxUnits, "buyer_limit", "must be 0 (none) or more")
	check(s.MaxQuantity >= 1 && s.MaxQuantity <= maxUnits, "max_quantity", "must be 1 or more")
	check(s.Hold >= time.Millisecond && s.Hold%time.Millisecond == 0, "hold", "must be whole milliseconds, 1ms or more")
	check(s.Expiry == ExpiryFree || s.Expiry == ExpiryAsk, "expiry", `must be "free" or "ask"`)
	check(s.Settle == SettleAccept || s.Settle == SettlePayment, "settle", `must be "accept" or "payment"`)
	return errors.Join(faults...)
}

// StateAt says pending, running or ended by the half-open interval
// [StartAt, EndAt). A sale without a start is pending until it is preheated.
// An invalid plan is ErrInvalidSale.
func (s Sale) StateAt(now time.Time) (SaleState, error) {
	if err := s.Validate(); err != nil {
		return "", err
	}
	return s.stateAt(now), nil
}

func (s Sale) stateAt(now time.Time) SaleState {
	// Milliseconds, as the scripts compare: both sides agree to the last one.
	at := now.UnixMilli()
	switch {
	case at >= s.EndAt.UnixMilli():
		return SaleEnded
	case s.StartAt.IsZero() || at < s.StartAt.UnixMilli():
		return SalePending
	}
	return SaleRunning
}

// View is what a replica knows of a preheated sale, at most one refresh old.
type View struct {
	Sale       Sale // StartAt is the stored one, never zero
	Desired    Desired
	Generation int64
	Level      Level
	// SoldOut: free and reserved were both 0 a moment ago. The mark dies of
	// itself 500 ms after the reading that set it.
	SoldOut bool
	// HoldsOut: nothing was free, but holds or loans were outstanding.
	HoldsOut bool
	// Until is the earliest deadline of a hold that was known, or zero.
	Until time.Time
	// Preheat says how well the preheat served.
	Preheat PreheatFigures
	// Gone: its keys in Redis are deleted, the archive answers for it.
	Gone bool
	// Reason says why weir itself paused the sale, "" otherwise.
	Reason string
}

// PreheatFigures are the three figures of a good preheat: done before the
// start, every key readable, (almost) nobody sent back to the source.
type PreheatFigures struct {
	Lead         time.Duration // from the preheat to the start; 0 when the sale opened with it
	Readable     float64       // part of the buckets that answered at the last reading
	BackToSource float64       // part of this replica's orders that found no stock preheated
}

// StateAt lays the operator's wish over the plan's state.
func (v View) StateAt(now time.Time) SaleState {
	state := v.Sale.stateAt(now)
	switch {
	case v.Desired == DesiredCancelled:
		return SaleCancelled
	case v.Desired == DesiredPaused && state != SaleEnded:
		return SalePaused
	}
	return state
}
