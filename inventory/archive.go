package inventory

import "context"

// Archive is where sales are proved when Redis has forgotten them. The SQL one
// is inventory/archive. All its acts are idempotent.
type Archive interface {
	// Save stores reservations of one sale, at most ArchiveSlice of them, in one
	// transaction. States only move forward; a row that is further on already
	// stays. ErrOversold, and nothing stored, when the sale's confirmed units
	// would pass its Total.
	Save(ctx context.Context, sale Sale, rows []Reservation) error
	// Find is one reservation, or ErrUnknownReservation.
	Find(ctx context.Context, id string) (Reservation, error)
	// Settle moves one reservation on after its keys in Redis are gone: to
	// Confirmed (a late payment: only while sold + quantity ≤ Total, otherwise
	// it becomes RefundDue), Released or Returned; to Reserved notes that the shop
	// accepted it. attempt 0 = by the shop or an operator. Asking twice gets the
	// earlier answer. The stored one beside ErrNotAllowed when there is no such
	// arrow, and beside ErrAttemptOver when another attempt was granted since.
	Settle(ctx context.Context, id string, to State, attempt int, shopOrder string) (Reservation, error)
	// Sale is what is archived of a sale, or ErrUnknownSale.
	Sale(ctx context.Context, id string) (ArchivedSale, error)
	// Seal notes that all of a sale is archived and its keys are deleted from
	// now on, with the state that it was left in. ErrUnknownSale.
	Seal(ctx context.Context, id string, left Desired) error
	// Each calls fn for every reservation of a sale.
	Each(ctx context.Context, sale string, fn func(Reservation) error) error
}

// ArchivedSale is a sale as its archive has it.
type ArchivedSale struct {
	Plan Sale    // of the highest version seen
	Sold int64   // units confirmed
	Left Desired // the state that it was sealed in; "" while it lives in Redis
}

// ArchiveSlice is how many reservations travel in one transaction.
const ArchiveSlice = 100
