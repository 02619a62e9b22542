// Package admin is the control plane: what people may see and do on the
// private listener, and the record of it.
//
// Every change is written to the audit log before it is made and again when
// its outcome is known; refused and forbidden changes too. A change that
// cannot be recorded is not made.
package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/blacklist"
	"weir/inventory"
)

// Roles of a Token.
const (
	Viewer       = "viewer"       // reads
	Security     = "security"     // reads, bans
	Merchandiser = "merchandiser" // reads, works on sales
	Operator     = "operator"     // everything
	Shop         = "shop"         // confirms, releases and reads reservations, nothing else
)

// Token lets its bearer in under a name and one role.
type Token struct {
	Name   string // who, in the audit log; unique
	Role   string // one of the roles above
	Secret string // at least 16 characters
}

// Config of a Console.
type Config struct {
	Tokens  []Token // may be empty: then only the open routes answer
	Version string  // of the program, as GET /api/v1/version shows it
	// BodyLimit is the largest request body, in bytes. Default 64 KiB.
	BodyLimit int
}

// Deps are the parts that the console operates. Stock, Bans and Redis are
// required; the rest has quiet defaults.
type Deps struct {
	Stock   *inventory.Store
	Bans    *blacklist.List
	Redis   redis.UniversalClient   // keeps the audit log
	Planned func() []inventory.Sale // the sales of the config file
	Ready   func() []string         // reasons why not ready; empty = ready
	Metrics prometheus.Gatherer     // default: nothing
	Now     func() time.Time        // default time.Now
	Log     *slog.Logger            // default: none
	// CheckPlan finds faults of a plan that only the whole configuration shows,
	// e.g. a hold shorter than the shop's timeout. Default: none.
	CheckPlan func(inventory.Sale) []Fault
	// Reconcile compares ledger, archive and the shop's orders of a sale, and
	// with apply carries the remedies out. orders replace the shop's own list,
	// nil: the shop is asked for it. Default: 501.
	Reconcile func(ctx context.Context, sale string, apply bool, orders []ReconcileOrder) (ReconcileReport, error)
	// Archive copies a sale to the archive now, and deletes it in Redis when it
	// is over for long enough. Default: 501.
	Archive func(ctx context.Context, sale string) (Archived, error)
	// Limits are the limit layers of this replica, with at most top offenders
	// each. Default: 501.
	Limits func(top int) []Limit
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	At        time.Time `json:"at"`
	Who       string    `json:"who"`    // the token's name; "anonymous" when none was valid
	Role      string    `json:"role"`   // empty when none
	Action    string    `json:"action"` // e.g. "ban.add"
	Target    string    `json:"target"` // e.g. "addr:192.0.2.1"
	Reason    string    `json:"reason"` // as given by who asked
	Outcome   string    `json:"outcome"`
	RequestID string    `json:"request_id"`
}
