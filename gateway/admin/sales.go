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

// sale is a sale as the API shows it. starts_at is null while it opens only
// with its preheat.
type sale struct {
	ID          string              `json:"id"`
	Version     int64               `json:"version"`
	Item        string              `json:"item"`
	State       inventory.SaleState `json:"state"`
	StartsAt    *time.Time          `json:"starts_at"`
	EndsAt      time.Time           `json:"ends_at"`
	Total       int64               `json:"total"`
	SafetyStock int64               `json:"safety_stock"`
	BucketCap   int64               `json:"bucket_cap"`
	BuyerLimit  int64               `json:"buyer_limit"`
	MaxQuantity int64               `json:"max_quantity"`
	Hold        string              `json:"hold"`
	Expiry      inventory.Expiry    `json:"expiry"`
	Settle      inventory.Settle    `json:"settle"`
	Preheated   bool                `json:"preheated"`
	Generation  int64               `json:"generation"`
	SoldOut     bool                `json:"sold_out"`
}

// showPlan shows a sale of the config file that is not preheated.
func showPlan(p inventory.Sale) sale {
	s := sale{ID: p.ID, Version: p.Version, Item: p.Item, State: inventory.SaleDraft, EndsAt: p.EndAt.UTC(),
		Total: p.Total, SafetyStock: p.SafetyStock, BucketCap: p.BucketCap, BuyerLimit: p.BuyerLimit,
		MaxQuantity: p.MaxQuantity, Hold: p.Hold.String(), Expiry: p.Expiry, Settle: p.Settle}
	if !p.StartAt.IsZero() {
		at := p.StartAt.UTC()
		s.StartsAt = &at
	}
	return s
}

// showView shows a preheated sale.
func (c *Console) showView(v inventory.View) sale {
	s := showPlan(v.Sale)
	s.State, s.Preheated = v.StateAt(c.now()), true
	s.Generation, s.SoldOut = v.Generation, v.SoldOut
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

// listSales answers GET /api/v1/sales. What is preheated hides its plan.
func (c *Console) listSales(*call) (any, error) {
	all, seen := []sale{}, map[string]bool{}
	for _, v := range c.stock.Views() {
		all = append(all, c.showView(v))
		seen[v.Sale.ID] = true
	}
	for _, p := range c.planned() {
		if !seen[p.ID] {
			all = append(all, showPlan(p))
		}
	}
	slices.SortFunc(all, func(a, b sale) int { return cmp.Compare(a.ID, b.ID) })
	return map[string]any{"sales": all}, nil
}

// showSale answers GET /api/v1/sales/{id}.
func (c *Console) showSale(cl *call) (any, error) {
	id := cl.param("id")
	if v, ok := c.stock.View(id); ok {
		return c.showView(v), nil
	}
	if p, ok := c.plan(id); ok {
		return showPlan(p), nil
	}
	return nil, unknownSale(id)
}

func unknownSale(id string) error {
	return refuse(http.StatusNotFound, "unknown_sale", "There is no sale %q.", shorten(id))
}

// preheatedOnly names the fault of a sale that has no stock in Redis.
func (c *Console) preheatedOnly(id string, err error) error {
	if !errors.Is(err, inventory.ErrUnknownSale) {
		return err
	}
	if _, ok := c.plan(id); ok {
		return refuse(http.StatusNotFound, "unknown_sale", "Sale %q is planned and not preheated.", shorten(id))
	}
	return unknownSale(id)
}

// level answers GET /api/v1/sales/{id}/level.
func (c *Console) level(cl *call) (any, error) {
	id := cl.param("id")
	level, err := c.stock.Level(cl.ctx, id)
	if err != nil {
		return nil, c.preheatedOnly(id, err)
	}
	return level, nil
}

// auditSale answers GET /api/v1/sales/{id}/audit.
func (c *Console) auditSale(cl *call) (any, error) {
	id := cl.param("id")
	a, err := c.stock.Audit(cl.ctx, id)
	if err != nil {
		return nil, c.preheatedOnly(id, err)
	}
	differences := append([]string{}, a.Differences...) // [] rather than null
	return map[string]any{"ok": a.OK, "differences": differences, "level": a.Level}, nil
}

// preheat answers POST /api/v1/sales/{id}/preheat: it writes the stock of a
// planned sale. One that only Redis knows is there already.
func (c *Console) preheat(cl *call) (act, error) {
	if err := cl.readReason(); err != nil {
		return nil, err
	}
	id := cl.param("id")
	p, inFile := c.plan(id)
	v, inRedis := c.stock.View(id)
	if !inFile && !inRedis {
		return nil, unknownSale(id)
	}
	return func(ctx context.Context) (any, error) {
		if !inFile {
			return c.showView(v), nil
		}
		v, err := c.stock.Preheat(ctx, p)
		if err != nil {
			return nil, err
		}
		return c.showView(v), nil
	}, nil
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
		if err != nil {
			return nil, c.preheatedOnly(id, err)
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
