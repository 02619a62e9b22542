package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"weir/inventory"
)

// preheat answers POST /api/v1/sales/{id}/preheat: it writes the stock of the
// file's plan, or of the draft. What stands already stays as it is.
func (c *Console) preheat(cl *call) (act, error) {
	if err := cl.readReason(); err != nil {
		return nil, err
	}
	id := cl.param("id")
	plan, inFile := c.plan(id)
	draft := inventory.Draft{}
	if !inFile {
		var err error
		if draft, err = c.drafts.Find(cl.ctx, id); errors.Is(err, inventory.ErrUnknownSale) {
			return nil, unknownSale(id)
		} else if err != nil {
			return nil, err
		}
		plan = draft.Plan
	}
	return func(ctx context.Context) (any, error) {
		if v, hot := c.stock.View(id); hot {
			if state := v.StateAt(c.now()); state == inventory.SaleEnded || state == inventory.SaleCancelled {
				return nil, stateForbids(id, state)
			}
		}
		v, err := c.stock.Preheat(ctx, plan)
		if err != nil {
			if no := c.quotaRefusal(ctx, plan, err); no != nil {
				return nil, no
			}
			return nil, preheatRefusal(id, err)
		}
		if err := c.drafts.Spend(ctx, draft); err != nil {
			c.log.Warn("a preheated draft stays in the list of drafts; it is passed over", "sale", id, "error", err)
		}
		return oneSale(c.showView(v), inventory.PlanTag(plan)), nil
	}, nil
}

// preheatRefusal names the field that stands in the way.
func preheatRefusal(id string, err error) error {
	faults := faultsOf(err)
	switch {
	case errors.Is(err, inventory.ErrQuotaRefused):
		return err // in the shop's own words
	case errors.Is(err, inventory.ErrStockLost):
		return stockLost(id)
	case len(faults) > 0:
	case errors.Is(err, inventory.ErrSaleStarted):
		faults = []Fault{{Field: "starts_at", Problem: "the sale has started; its stock is not written anew"}}
	case errors.Is(err, inventory.ErrVersionReused):
		faults = []Fault{{Field: "version", Problem: "this version, or a later one, is preheated with another plan; raise it"}}
	case errors.Is(err, inventory.ErrInvalidPreheat) && strings.Contains(err.Error(), "its cap is"):
		_, text, _ := strings.Cut(err.Error(), inventory.ErrInvalidPreheat.Error()+": ")
		faults = []Fault{{Field: "bucket_cap", Problem: text}}
	default:
		return err
	}
	own := refusalOf(err)
	if errors.Is(err, inventory.ErrUnavailable) || own.status >= http.StatusInternalServerError {
		return err
	}
	return faulty(own.status, own.code, faults)
}
