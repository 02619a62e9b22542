package gateway

import (
	"time"

	"weir/inventory"
)

// sale is hop 5: is this item on sale now, and is any unit left, as far as
// memory knows.
func (g *Gateway) sale(x *exchange) Outcome {
	if !x.buying() {
		return Outcome{}
	}
	if !validItem(x.param) {
		return refuseWith(BadRequest, "item: 1 to 64 characters of A-Z a-z 0-9 . _ -")
	}
	view, ok := g.deps.Stock.ViewOfItem(x.param)
	if _, planned := g.cfg.Items[x.param]; planned && !ok {
		return refuse(NotOnSale)
	}
	if !ok {
		return refuseWith(NotFound, "This item is not in any sale.")
	}
	x.view = view
	if out := g.closed(view); out.Kind != goOn {
		return g.linkWinner(x, out)
	}
	return Outcome{}
}

// closed says why a sale takes no order now; the zero Outcome when it does.
func (g *Gateway) closed(v inventory.View) Outcome {
	now := g.deps.Now()
	switch v.StateAt(now) {
	case inventory.SaleRunning:
		if v.SoldOut {
			return refuse(SoldOut)
		}
		return Outcome{}
	case inventory.SalePending:
		return Outcome{
			Kind:       SaleNotStarted,
			RetryAfter: max(v.Sale.StartAt.Sub(now), time.Millisecond),
			Extra:      map[string]any{"starts_at": stamp(v.Sale.StartAt), "now": stamp(now)},
		}
	case inventory.SalePaused:
		return refuse(SalePaused)
	case inventory.SaleEnded, inventory.SaleCancelled:
		return refuse(SaleEnded)
	}
	return refuseWith(NotFound, "This sale is not open to the public.")
}

// linkWinner adds the way to the reservation when the caller shows a signed
// pass of his: a winner whose answer was lost learns it also after the sale.
func (g *Gateway) linkWinner(x *exchange, out Outcome) Outcome {
	token := g.passToken(x, "")
	if token == "" {
		return out
	}
	p, err := g.deps.Captcha.Verify(token)
	if signed(err) && p.User == x.caller.User && p.Sale == x.view.Sale.ID {
		out.Location = g.reservationPath(p.OrderID)
	}
	return out
}

func (x *exchange) buying() bool { return x.route != nil && x.route.cfg.Kind == Buy }

// stamp is a time as all answers write it: RFC 3339, UTC, milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func (g *Gateway) reservationPath(id string) string { return g.cfg.Prefix + "/reservations/" + id }
