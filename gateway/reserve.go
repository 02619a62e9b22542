package gateway

import (
	"context"
	"errors"
	"time"

	"weir/inventory"
)

// reserveTimeout is how long a caller waits for the reserve script.
const reserveTimeout = 2 * time.Second

// reserve is hop 9: one script takes the unit, or tells what became of this
// order before.
func (g *Gateway) reserve(x *exchange) Outcome {
	if !x.buying() {
		return Outcome{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), reserveTimeout)
	defer cancel()
	started := time.Now()
	res, err := g.deps.Stock.Reserve(ctx, x.order)
	g.seen.reserve.Observe(time.Since(started).Seconds())
	if err != nil {
		return g.keepPass(x, g.notReserved(x, err))
	}
	x.result = res
	out := g.reserved(x, res)
	if out.Kind != goOn {
		out = g.keepPass(x, out)
	}
	return out
}

func (g *Gateway) notReserved(x *exchange, err error) Outcome {
	if errors.Is(err, inventory.ErrOutcomeUnknown) {
		return Outcome{Kind: OutcomeUnknown, Location: g.reservationPath(x.order.ID), Fault: err}
	}
	switch {
	case errors.Is(err, inventory.ErrInvalidOrder):
		return Outcome{Kind: BadRequest, Detail: "This order cannot be placed in this sale.", Fault: err}
	case errors.Is(err, inventory.ErrUnknownSale):
		return Outcome{Kind: NotOnSale, Fault: err}
	}
	return Outcome{Kind: InventoryUnavailable, Fault: err}
}

// reserved maps the script's code to an outcome; the zero Outcome forwards.
func (g *Gateway) reserved(x *exchange, res inventory.Result) Outcome {
	switch res.Code {
	case inventory.Taken, inventory.TakenLast:
		return Outcome{}
	case inventory.Known:
		return g.known(x, res)
	case inventory.NotEnough:
		if res.Available > 0 {
			return Outcome{Kind: NotEnough, Extra: map[string]any{"available": res.Available}}
		}
		return g.perhapsWon(x, res, refuse(SoldOut))
	case inventory.NoneFreeNow:
		return g.perhapsWon(x, res, Outcome{Kind: NoneFreeNow, RetryAfter: g.until(res.Until)})
	case inventory.NotPreheated:
		g.deps.Log.Error("a sale that should be preheated has no stock keys", "sale", x.order.Sale, "item", x.order.Item)
		return refuse(NotOnSale)
	case inventory.Tombstoned:
		return g.spent(x)
	case inventory.BuyerLimit:
		return Outcome{Kind: PurchaseLimit, Extra: map[string]any{"limit": x.view.Sale.BuyerLimit}}
	case inventory.NotRunning:
		return g.notRunning(x)
	case inventory.Mismatch:
		return Outcome{Kind: OrderMismatch, Extra: map[string]any{"item": res.Reservation.Item, "quantity": res.Reservation.Quantity}}
	}
	return refuse(InventoryUnavailable)
}

// perhapsWon links the reservation beside an answer from memory: the ledger was
// not asked, and may know this order as a winner's.
func (g *Gateway) perhapsWon(x *exchange, res inventory.Result, out Outcome) Outcome {
	if !res.FromMemory {
		return out
	}
	return g.linkWinner(x, out)
}

// known answers a repeat from the ledger. Only the holder of a fresh attempt
// goes on to the shop.
func (g *Gateway) known(x *exchange, res inventory.Result) Outcome {
	switch r := res.Reservation; r.State {
	case inventory.Reserved:
		if res.Granted {
			return Outcome{}
		}
		if r.AttemptUntil.IsZero() { // the shop has the order and waits for its payment
			return Outcome{Kind: FromLedger, Location: g.reservationPath(r.ID), answer: g.answerReservation(r)}
		}
		return Outcome{Kind: InProgress, Location: g.reservationPath(r.ID), RetryAfter: g.until(r.AttemptUntil)}
	case inventory.Confirmed:
		if x.view.Sale.BuyerLimit != 1 {
			g.forget(x) // he may have more: his next solve is a new order
		}
		return Outcome{Kind: FromLedger, Location: g.reservationPath(r.ID), answer: g.answerReservation(r)}
	}
	return g.spent(x)
}

// spent frees the buyer to solve again: his next pass is a new order.
func (g *Gateway) spent(x *exchange) Outcome {
	g.forget(x)
	x.token = ""
	return Outcome{Kind: PassSpent, Location: g.reservationPath(x.order.ID)}
}

// notRunning: the bucket's own clock or state disagrees with our view, which
// is up to a refresh old. The view tells why as soon as it is fresh.
func (g *Gateway) notRunning(x *exchange) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), reserveTimeout)
	defer cancel()
	if err := g.deps.Stock.Refresh(ctx); err != nil {
		return Outcome{Kind: InventoryUnavailable, Fault: err}
	}
	if v, ok := g.deps.Stock.View(x.order.Sale); ok {
		x.view = v
		if out := g.closed(v); out.Kind != goOn {
			return out
		}
	}
	return refuse(SalePaused)
}

// until is the wait from now to t; 0 when t is unknown or past.
func (g *Gateway) until(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(g.deps.Now()), 0)
}
