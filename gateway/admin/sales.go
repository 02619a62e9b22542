package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"weir/inventory"
)

// sale is a sale as the API shows it: its plan, and where it stands. starts_at
// is null while it opens only with its preheat.
type sale struct {
	ID          string              `json:"id"`
	Version     int64               `json:"version"` // of the plan that is shown
	Item        string              `json:"item"`
	State       inventory.SaleState `json:"state"`
	StartsAt    *time.Time          `json:"starts_at"`
	EndsAt      time.Time           `json:"ends_at"`
	Total       int64               `json:"total"`
	SafetyStock int64               `json:"safety_stock"`
	Buckets     int                 `json:"buckets"`
	BucketCap   int64               `json:"bucket_cap"`
	BuyerLimit  int64               `json:"buyer_limit"`
	MaxQuantity int64               `json:"max_quantity"`
	Hold        string              `json:"hold"`
	Expiry      inventory.Expiry    `json:"expiry"`
	Settle      inventory.Settle    `json:"settle"`
	// InConfigFile: the plan is changed in the file, not here.
	InConfigFile bool `json:"in_config_file"`
	Preheated    bool `json:"preheated"`
	// PreheatedVersion is the version that sells, 0 = none; lower than Version
	// while an edit waits for its preheat.
	PreheatedVersion int64 `json:"preheated_version"`
	Generation       int64 `json:"generation"`
	SoldOut          bool  `json:"sold_out"`
	// Reason says why weir itself paused the sale.
	Reason string `json:"reason,omitempty"`
	// ETag names the plan, as the header does; only in the answer about one sale.
	ETag string `json:"etag,omitempty"`
	// Quota is what is frozen of the shop's stock; only in the answer about one
	// sale, and only if something ever was.
	Quota *inventory.QuotaState `json:"quota,omitempty"`
}

// showPlan shows a plan that is not preheated.
func showPlan(p inventory.Sale) sale {
	s := sale{ID: p.ID, Version: p.Version, Item: p.Item, State: inventory.SaleDraft, EndsAt: p.EndAt.UTC(),
		Total: p.Total, SafetyStock: p.SafetyStock, Buckets: p.Buckets, BucketCap: p.BucketCap, BuyerLimit: p.BuyerLimit,
		MaxQuantity: p.MaxQuantity, Hold: p.Hold.String(), Expiry: p.Expiry, Settle: p.Settle}
	if !p.StartAt.IsZero() {
		at := p.StartAt.UTC()
		s.StartsAt = &at
	}
	return s
}

// showView shows a preheated sale.
func (c *Console) showView(v inventory.View) sale { return c.showOver(v, v.Sale) }

// showOver shows a plan with the state of the preheated sale.
func (c *Console) showOver(v inventory.View, plan inventory.Sale) sale {
	s := showPlan(plan)
	s.State, s.Preheated, s.PreheatedVersion = v.StateAt(c.now()), true, v.Sale.Version
	s.Generation, s.SoldOut, s.Reason = v.Generation, v.SoldOut, v.Reason
	_, s.InConfigFile = c.plan(v.Sale.ID)
	return s
}

// showWaiting shows a draft. Once the sale that is preheated has started or was
// cancelled, an edit of it can no longer take effect and is not shown.
func (c *Console) showWaiting(plan inventory.Sale) sale {
	v, hot := c.stock.View(plan.ID)
	switch {
	case !hot:
		return showPlan(plan)
	case plan.Version <= v.Sale.Version, v.Desired == inventory.DesiredCancelled, !c.now().Before(v.Sale.StartAt):
		return c.showView(v)
	}
	return c.showOver(v, plan)
}

// showDraft shows what the next edit starts from.
func (c *Console) showDraft(d inventory.Draft) sale {
	s := c.showWaiting(d.Plan)
	if d.Preheated > 0 { // the view may not know yet
		s.Preheated, s.PreheatedVersion = true, max(s.PreheatedVersion, d.Preheated)
	}
	return s
}

// plan finds a sale of the config file.
func (c *Console) plan(id string) (inventory.Sale, bool) {
	all := c.planned()
	i := slices.IndexFunc(all, func(s inventory.Sale) bool { return s.ID == id })
	if i < 0 {
		return inventory.Sale{}, false
	}
	return all[i], true
}

// listSales answers GET /api/v1/sales. What is preheated hides its plan in the
// file, and that hides a draft of the same id.
func (c *Console) listSales(cl *call) (any, error) {
	drafts, err := c.drafts.List(cl.ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]sale{}
	for _, d := range drafts {
		byID[d.ID] = c.showWaiting(d)
	}
	for _, p := range c.planned() {
		byID[p.ID] = c.showFile(p)
	}
	for _, v := range c.stock.Views() {
		if _, ok := byID[v.Sale.ID]; !ok {
			byID[v.Sale.ID] = c.showView(v)
		}
	}
	all := make([]sale, 0, len(byID))
	for _, s := range byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b sale) int { return cmp.Compare(a.ID, b.ID) })
	return map[string]any{"sales": all}, nil
}

// showFile shows a sale of the config file.
func (c *Console) showFile(p inventory.Sale) sale {
	if v, ok := c.stock.View(p.ID); ok {
		return c.showView(v)
	}
	s := showPlan(p)
	s.InConfigFile = true
	return s
}

// showSale answers GET /api/v1/sales/{id}. The ETag names the plan, not the
// state: it is what PUT and DELETE want in If-Match.
func (c *Console) showSale(cl *call) (any, error) {
	id := cl.param("id")
	if p, ok := c.plan(id); ok {
		return oneSale(c.withQuota(cl.ctx, c.showFile(p)), inventory.PlanTag(p)), nil
	}
	d, err := c.drafts.Find(cl.ctx, id)
	if errors.Is(err, inventory.ErrUnknownSale) {
		// Lost by Redis, so what this replica saw of it; or of old, in the archive alone.
		v, err := c.stock.Look(cl.ctx, id)
		if errors.Is(err, inventory.ErrUnknownSale) {
			return nil, unknownSale(id)
		}
		if err != nil {
			return nil, err
		}
		return c.withQuota(cl.ctx, c.showView(v)), nil
	}
	if err != nil {
		return nil, err
	}
	return oneSale(c.withQuota(cl.ctx, c.showDraft(d)), d.Tag()), nil
}

// oneSale is the answer about one sale: its ETag stands in the body too, for who
// reads it there.
func oneSale(s sale, tag string) reply {
	s.ETag = `"` + tag + `"`
	return reply{body: s, etag: tag}
}

// stateForbids names the state that stands in the way.
func stateForbids(id string, state inventory.SaleState) error {
	no := refuse(http.StatusConflict, "not_allowed", "Sale %q is %s, so this is not possible.", shorten(id), state)
	no.extra = map[string]any{"state": state}
	return no
}

// stockLost: this process has seen a stock that Redis has no longer.
func stockLost(id string) error {
	return refuse(http.StatusConflict, "stock_lost",
		"Redis has lost the stock of sale %q, so it is not sold any more. Who won stands in the archive and in the shop's orders.", shorten(id))
}

func unknownSale(id string) error {
	return refuse(http.StatusNotFound, "unknown_sale", "There is no sale %q.", shorten(id))
}

// preheatedOnly names the fault of a sale that has no stock in Redis.
func (c *Console) preheatedOnly(ctx context.Context, id string, err error) error {
	if !errors.Is(err, inventory.ErrUnknownSale) || errors.Is(err, inventory.ErrRecorded) {
		return err
	}
	if _, known := c.stock.View(id); known {
		return stockLost(id)
	}
	_, planned := c.plan(id)
	if !planned {
		_, e := c.drafts.Find(ctx, id)
		planned = e == nil
	}
	if planned {
		return refuse(http.StatusNotFound, "unknown_sale", "Sale %q is planned and not preheated.", shorten(id))
	}
	return unknownSale(id)
}

// level answers GET /api/v1/sales/{id}/level.
func (c *Console) level(cl *call) (any, error) {
	id := cl.param("id")
	level, err := c.stock.Level(cl.ctx, id)
	if err != nil {
		return nil, c.preheatedOnly(cl.ctx, id, err)
	}
	return listed(level), nil
}

// listed makes no buckets an empty list rather than null.
func listed(l inventory.Level) inventory.Level {
	l.Buckets = append([]inventory.BucketLevel{}, l.Buckets...)
	return l
}

const (
	// mostDifferences bounds one answer; the first is what to look at.
	mostDifferences = 32
	// auditSaleTimeout: it walks a whole ledger, several times while it is busy.
	auditSaleTimeout = 2 * time.Minute
)

// auditSale answers GET /api/v1/sales/{id}/audit. Not ok and not proved means
// that nobody knows: the stock changed during every walk.
func (c *Console) auditSale(cl *call) (any, error) {
	id := cl.param("id")
	a, err := c.stock.Audit(cl.ctx, id)
	if err != nil {
		return nil, c.preheatedOnly(cl.ctx, id, err)
	}
	differences := append([]string{}, a.Differences[:min(len(a.Differences), mostDifferences)]...) // [] rather than null
	return map[string]any{"ok": a.OK, "proved": a.Proved, "differences": differences, "level": listed(a.Level)}, nil
}

func (c *Console) pause(cl *call) (act, error) { return c.desire(cl, inventory.DesiredPaused) }

func (c *Console) resume(cl *call) (act, error) { return c.desire(cl, inventory.DesiredOn) }

func (c *Console) cancel(cl *call) (act, error) { return c.desire(cl, inventory.DesiredCancelled) }

func (c *Console) desire(cl *call, d inventory.Desired) (act, error) {
	if err := cl.readReason(); err != nil {
		return nil, err
	}
	id := cl.param("id")
	return func(ctx context.Context) (any, error) {
		v, err := c.stock.SetDesired(ctx, id, d)
		if errors.Is(err, inventory.ErrNotAllowed) {
			if v, ok := c.stock.View(id); ok {
				return nil, stateForbids(id, v.StateAt(c.now()))
			}
		}
		if err != nil {
			return nil, c.preheatedOnly(ctx, id, err)
		}
		return c.showView(v), nil
	}, nil
}

// readReason reads a body of at most {"reason"}.
func (cl *call) readReason() error {
	var reason string
	if err := cl.body(fields{"reason": &reason}); err != nil {
		return err
	}
	if err := note("reason", reason); err != nil {
		return err
	}
	cl.reason = reason
	return nil
}
