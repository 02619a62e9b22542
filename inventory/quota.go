package inventory

import (
	"context"
	"errors"
	"time"
)

// Quota is the shop's product stock, of which a part may be frozen for a sale.
// weir never changes product stock otherwise.
//
// Both acts are keyed by the sale's id and set an absolute number, so asked
// twice they act once. Steps of a sale only grow: a shop that remembers the
// last one and refuses older ones cannot be misled by a request that was
// overtaken on its way, above all not by a freeze that arrives after its thaw.
//
// An error that is ErrQuotaRefused means that nothing changed and that asking
// again is no use; any other means that nobody knows.
type Quota interface {
	// Freeze sets ask.Units of the item aside for the sale, instead of what was
	// set aside for it before.
	Freeze(ctx context.Context, ask QuotaAsk) error
	// Thaw ends the freeze: of its units ask.Unsold go back to the product stock
	// and ask.Sold are gone. Fewer frozen than Unsold: only those go back. Where
	// nothing is frozen it is no error. Thawed again with another number, the
	// difference moves: units came back late, or were sold late.
	Thaw(ctx context.Context, ask QuotaAsk) error
}

// QuotaAsk is one question to the shop.
type QuotaAsk struct {
	Sale, Item string
	// Units are to be frozen: the sale's Total and its SafetyStock, which is of
	// no use to the sale when the shop sells it elsewhere.
	Units int64
	// Unsold are to go back, Sold are gone; their sum is what was frozen.
	Unsold, Sold int64
	Step         int64 // of this sale, from 1 upwards, with gaps
}

// ErrQuotaRefused: the shop says no for certain, and nothing changed there.
var ErrQuotaRefused = errors.New("the shop refused the quota")

// QuotaStage is where a sale's quota stands.
type QuotaStage string

const (
	QuotaFreezing QuotaStage = "freezing" // asked for, or about to be; nobody knows
	QuotaFrozen   QuotaStage = "frozen"
	QuotaThawing  QuotaStage = "thawing" // as freezing
	QuotaThawed   QuotaStage = "thawed"
)

// QuotaState is what is known of one sale's quota. It lies in Redis before the
// shop is asked, so nothing that was frozen is forgotten.
type QuotaState struct {
	Sale    string     `json:"sale"`
	Item    string     `json:"item"`
	Version int64      `json:"version"` // of the plan that asked for it
	Stage   QuotaStage `json:"state"`
	Units   int64      `json:"units"`  // frozen or to be
	Unsold  int64      `json:"unsold"` // given back or to be; 0 before thawing
	Step    int64      `json:"step"`   // of the last question
	Since   time.Time  `json:"since"`  // when a preheat or this stage began, Redis time
	// Tries are questions since the last answer, Next is when the next one is
	// due, Fault is why the last one failed, "" = it did not.
	Tries   int       `json:"tries"`
	Next    time.Time `json:"next,omitzero"`
	Fault   string    `json:"fault,omitempty"`
	Refused bool      `json:"refused,omitempty"` // Fault is the shop's definite no
}

// settled: the shop did what was asked.
func (q QuotaState) settled() bool { return q.Stage == QuotaFrozen || q.Stage == QuotaThawed }

// ask is the question that its stage stands for.
func (q QuotaState) ask() QuotaAsk {
	a := QuotaAsk{Sale: q.Sale, Item: q.Item, Step: q.Step}
	if q.Stage == QuotaFreezing {
		a.Units = q.Units
	} else {
		a.Unsold, a.Sold = q.Unsold, q.Units-q.Unsold
	}
	return a
}

const (
	// MaxQuotas is how many are kept. When there is no room, thawed ones that
	// nothing has happened to for quotaKept are forgotten.
	MaxQuotas = 2_000
	quotaKept = time.Hour
	// quotaTime bounds one question to the shop.
	quotaTime = 3 * time.Second
	// quotaTries is how often a preheat asks before it gives up.
	quotaTries = 3
	quotaPause = 100 * time.Millisecond // before its second try; doubles
	// quotaGrace is how old a freeze must be before it counts as left hanging:
	// more than the tries of a preheat and its lease take.
	quotaGrace = quotaTries*quotaTime + preheatLease + 3*time.Second
	// Questions of the background: the first pause doubles up to the last.
	quotaFirst = time.Second
	quotaLast  = time.Minute
	quotaText  = 512 // bytes of Fault
)

// quotaUnits is what a plan freezes.
func quotaUnits(plan Sale) int64 { return plan.Total + plan.SafetyStock }

// back-off before the next try, after n.
func quotaWait(n int) time.Duration {
	if n > 6 { // 64 s
		return quotaLast
	}
	return min(quotaFirst<<max(n-1, 0), quotaLast)
}
