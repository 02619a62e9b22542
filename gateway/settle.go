package gateway

import (
	"context"
	"errors"
	"time"

	"weir/inventory"
)

type settlement int

const (
	settleAccept settlement = iota
	settleRelease
)

const (
	settleTries   = 3
	settleTimeout = time.Second // of one try
)

// settle is hop 11: what the shop said becomes the reservation's state. The
// step is idempotent and tied to our attempt, so it is tried again when its
// answer is lost. If it fails for good, the sweep finds the open attempt and
// asks the shop; the unit is neither lost nor sold twice.
func (g *Gateway) settle(x *exchange, what settlement, shopOrder string) error {
	r := x.result.Reservation
	var err error
	for range settleTries {
		err = g.settleOnce(x.view.Sale, r, what, shopOrder)
		if err == nil || errors.Is(err, inventory.ErrNotAllowed) || errors.Is(err, inventory.ErrAttemptOver) {
			break
		}
	}
	if err != nil {
		g.seen.unsettled.Inc()
	}
	// The pass of a closed order is spent; so is that of a sold one when the
	// buyer may have more. With a limit of one it stays his way back.
	if err == nil && (what == settleRelease || mayConfirm(x.view.Sale) && x.view.Sale.BuyerLimit != 1) {
		g.forget(x)
	}
	return err
}

func (g *Gateway) settleOnce(sale inventory.Sale, r inventory.Reservation, what settlement, shopOrder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	var err error
	switch {
	case what == settleRelease:
		_, err = g.deps.Stock.Release(ctx, r.Sale, r.ID, r.Attempt)
	case mayConfirm(sale):
		_, err = g.deps.Stock.Confirm(ctx, r.Sale, r.ID, r.Attempt, shopOrder)
	default:
		_, err = g.deps.Stock.Accept(ctx, r.Sale, r.ID, r.Attempt, shopOrder)
	}
	return err
}

// forget drops the live pass of a closed order, so that the next solve makes
// a new one.
func (g *Gateway) forget(x *exchange) {
	if x.pass.OrderID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), solveTimeout)
	defer cancel()
	if err := g.deps.Captcha.Forget(ctx, x.pass); err != nil {
		g.deps.Log.Warn("forgetting a spent pass", "err", err, "request_id", x.id)
	}
}
