package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// MaxReconciled bounds the reservations of one Reconcile, from all sources
	// together. Each costs about 100 bytes while it runs: 100 MB at the bound.
	MaxReconciled = 1_000_000
	// MaxCases bounds the differences that one Reconcile looks into one by one,
	// each some 500 bytes. Those beyond are counted in Report.More: apply, and
	// reconcile again.
	MaxCases = 20_000
)

var (
	// ErrNoList: the shop cannot list its orders.
	ErrNoList = errors.New("the shop cannot list its orders")
	// ErrNoLookup: the shop cannot be asked about one reservation.
	ErrNoLookup = errors.New("the shop cannot be asked about a reservation")
	// ErrTooMany: more reservations than MaxReconciled. Nothing was compared.
	ErrTooMany = errors.New("too many reservations to compare")
)

// Where an order stands in the shop.
const (
	OrderPlaced    = "placed"    // it stands, and is not paid as far as the shop says
	OrderPaid      = "paid"      // it stands
	OrderCancelled = "cancelled" // it was made and stands no more
)

// ShopOrder is one order as the shop has it.
type ShopOrder struct {
	Reservation string // the id that weir gave it; "" = not bought through weir
	Order       string // the shop's own id
	User        string // "" = not told; not compared then
	Quantity    int64  // units; 0 = not told, in an answer of Lookup only
	State       string // one of the above; "" = not told, taken for placed, in an answer of Lookup only
}

// Orders are the shop's. The gateway's ones speak HTTP.
type Orders interface {
	// Each calls fn for every order of a sale, cancelled ones too, in no order
	// and maybe more than once. ErrNoList when the shop has no list. Any other
	// error means that the list is not whole.
	Each(ctx context.Context, sale string, fn func(ShopOrder) error) error
	// Lookup says whether the shop has an order of a reservation now; a
	// cancelled one is no order. ErrNoLookup when it cannot be asked at all.
	Lookup(ctx context.Context, r Reservation) (order ShopOrder, has bool, err error)
}

// Books is what Reconcile needs of a Store.
type Books interface {
	View(sale string) (View, bool)
	Level(ctx context.Context, sale string) (Level, error)
	Ledger(ctx context.Context, sale string, fn func(Reservation) error) error
	Find(ctx context.Context, id string) (Reservation, error)
	Accept(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error)
	Confirm(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error)
	Release(ctx context.Context, sale, id string, attempt int) (Reservation, error)
	Expire(ctx context.Context, sale, id string) (Reservation, error)
	Restore(ctx context.Context, r Reservation) (Reservation, error)
}

// Reconciliation says what to compare.
type Reconciliation struct {
	Sale    string
	Books   Books
	Archive Archive // nil: there is none
	Orders  Orders  // nil: the shop can neither list nor be asked
	// Given replaces Orders.Each: the shop's orders as a person has them. It
	// must be whole, for its silence counts: a sold order that it does not name,
	// or calls cancelled, and by which the shop stands, is KindUnclear. nil: ask
	// Orders.
	Given []ShopOrder
	// Apply carries the remedies out, except those of Person.
	Apply bool
}

// Report is what a Reconcile found.
type Report struct {
	Sale  string    `json:"sale"`
	At    time.Time `json:"at"` // Redis time by which deadlines were judged
	Apply bool      `json:"apply"`
	// LedgerGone: the keys in Redis are deleted, the archive stands for the
	// ledger and was compared with the shop only.
	LedgerGone bool `json:"ledger_gone"`
	// Listed: the shop's orders were listed, or given. Asked counts the
	// reservations that the shop was asked about, Unanswered those of them
	// about which it could not say.
	Listed     bool    `json:"listed"`
	Asked      int64   `json:"asked"`
	Unanswered int64   `json:"unanswered"`
	Checked    Checked `json:"checked"`
	Units      Units   `json:"units"`
	// Differences: overselling first, the lagging archive last, between them
	// by reservation.
	Differences []Difference `json:"differences"`
	More        int64        `json:"more"` // suspected differences beyond MaxCases, not looked into
}

// Checked counts the records that were compared.
type Checked struct {
	Ledger  int64 `json:"ledger"`
	Archive int64 `json:"archive"`
	Shop    int64 `json:"shop"`
}

// Units are sums over the records that were compared.
type Units struct {
	Total   int64 `json:"total"`   // on sale
	Ledger  int64 `json:"ledger"`  // confirmed
	Archive int64 `json:"archive"` // confirmed
	Shop    int64 `json:"shop"`    // of placed and paid orders, doubled and foreign ones too
}

// Difference is one reservation on which the sources do not agree.
type Difference struct {
	Kind        Kind   `json:"kind"`
	Reservation string `json:"reservation"` // "" for a difference of the whole sale
	// What each source says: a state, "" = nothing, "?" = it could not say.
	Ledger  string `json:"ledger"`
	Archive string `json:"archive"`
	Shop    string `json:"shop"`

	User     string `json:"user,omitempty"`
	Quantity int64  `json:"quantity,omitempty"` // units
	Order    string `json:"order,omitempty"`    // the shop's id
	Count    int64  `json:"count"`              // reservations that it speaks of
	Remedy   string `json:"remedy"`             // in words
	Person   bool   `json:"person"`             // Apply leaves it to a person
	Applied  bool   `json:"applied"`            // the remedy is carried out
	Now      State  `json:"now,omitempty"`      // the ledger's state after that
	Error    string `json:"error,omitempty"`    // why it could not be
}

// Reconcile compares ledger, archive and the shop's orders of a sale, while it
// is sold or after, and says of each difference what to do about it. Each
// suspected one is read again from all three before it is reported, so that a
// sale that goes on is not mistaken for one that is wrong.
//
// With Apply each remedy that needs no person is one step of the Store, guarded
// by the state that it finds: it may be repeated and never sells more than the
// total. Nothing is applied before all sources were read to their end.
//
// What only a "no" of the shop speaks for is never applied to a sold unit: the
// buyer was told that it is his, and the shop may have lost the order itself.
//
// Errors: ErrUnknownSale, ErrTooMany, and those of a source that could not be
// read; what was found and done until then stands in the report.
func Reconcile(ctx context.Context, q Reconciliation) (Report, error) {
	r := &reconcile{q: q, known: map[key]facts{}, rows: map[key]shopRow{}, report: Report{Sale: q.Sale, Apply: q.Apply, Differences: []Difference{}}}
	for _, step := range []func(context.Context) error{r.open, r.readLedger, r.readArchive, r.readShop, r.lookInto, r.copyBehind} {
		if err := step(ctx); err != nil {
			r.sort()
			return r.report, fmt.Errorf("reconciling sale %s: %w", q.Sale, err)
		}
	}
	r.sort()
	return r.report, nil
}
