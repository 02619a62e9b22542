package admin

import (
	"context"
	"errors"
	"net/http"

	"weir/inventory"
)

// byShop is the attempt number of a change by the shop or an operator.
const byShop = 0

// showReservation answers GET /api/v1/reservations/{id}.
func (c *Console) showReservation(cl *call) (any, error) {
	return c.find(cl.ctx, cl.param("id"))
}

func (c *Console) find(ctx context.Context, id string) (inventory.Reservation, error) {
	if !inventory.ValidOrderID(id) {
		return inventory.Reservation{}, inventory.ErrUnknownReservation
	}
	return c.stock.Find(ctx, id)
}

// confirm answers POST /api/v1/reservations/{id}/confirm. A late payment for
// which no unit is left answers 200 with state refund_due.
func (c *Console) confirm(cl *call) (act, error) {
	var order string
	if err := cl.body(fields{"order": &order}); err != nil {
		return nil, err
	}
	if err := note("order", order); err != nil {
		return nil, err
	}
	id := cl.param("id")
	return func(ctx context.Context) (any, error) {
		return c.settle(ctx, id, func(sale string) (inventory.Reservation, error) {
			return c.stock.Confirm(ctx, sale, id, byShop, order)
		})
	}, nil
}

// release answers POST /api/v1/reservations/{id}/release.
func (c *Console) release(cl *call) (act, error) {
	if err := cl.readReason(); err != nil {
		return nil, err
	}
	id := cl.param("id")
	return func(ctx context.Context) (any, error) {
		return c.settle(ctx, id, func(sale string) (inventory.Reservation, error) {
			return c.stock.Release(ctx, sale, id, byShop)
		})
	}, nil
}

// settle finds the sale of a reservation and changes it. An arrow that does
// not exist is refused with the state that stands.
func (c *Console) settle(ctx context.Context, id string, change func(sale string) (inventory.Reservation, error)) (any, error) {
	r, err := c.find(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err = change(r.Sale)
	if errors.Is(err, inventory.ErrNotAllowed) {
		no := refuse(http.StatusConflict, "not_allowed", "The reservation is %s.", r.State)
		no.extra = map[string]any{"state": r.State}
		return nil, no
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}
