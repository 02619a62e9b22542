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
	// Sale is the archived plan and how many units are confirmed, or ErrUnknownSale.
	Sale(ctx context.Context, id string) (plan Sale, sold int64, err error)
	// Each calls fn for every reservation of a sale.
	Each(ctx context.Context, sale string, fn func(Reservation) error) error
}

// ArchiveSlice is how many reservations travel in one transaction.
const ArchiveSlice = 100
