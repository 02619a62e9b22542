package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/captcha"
	"weir/inventory"
	"weir/limiter"
)

// solveTimeout is the deadline of the one network call that hop 7 may make.
const solveTimeout = time.Second

// attemptMargin is added to the forward's time-out when an attempt is granted:
// the time to settle it.
const attemptMargin = 2 * time.Second

// maxIdempotencyKey bounds the Idempotency-Key header, in bytes.
const maxIdempotencyKey = 128

// passAndOrder is hop 7: the pass, its own limit, and the order it stands for.
func (g *Gateway) passAndOrder(x *exchange) Outcome {
	if !x.buying() {
		return Outcome{}
	}
	w, err := readWish(x)
	if err != nil {
		return refuseWith(BadRequest, err.Error())
	}
	if most := x.view.Sale.MaxQuantity; w.quantity < 1 || w.quantity > most {
		return refuseWith(BadRequest, fmt.Sprintf("quantity %d: must be a whole number from 1 to %d", w.quantity, most))
	}
	id, out := g.orderID(x, w)
	if out.Kind != goOn {
		return out
	}
	if d := take(g.passes, limiter.Keys{id}); !d.OK {
		return g.keepPass(x, Outcome{Kind: RateLimited, RetryAfter: d.RetryAfter})
	}
	x.body = w.rest
	x.order = inventory.Order{
		ID: id, Sale: x.view.Sale.ID, Item: x.view.Sale.Item, User: x.caller.User,
		Quantity: w.quantity, AttemptFor: g.cfg.Upstream.Timeout + attemptMargin,
	}
	return Outcome{}
}

// orderID is the idempotency key of the reservation: the pass's, or on a route
// without captcha one made from the Idempotency-Key header. Without that
// header a retry is a new order.
func (g *Gateway) orderID(x *exchange, w wish) (string, Outcome) {
	sale, user := x.view.Sale.ID, x.caller.User
	if !x.route.cfg.Captcha {
		key := string(x.c.Request().Header.Peek("Idempotency-Key"))
		switch {
		case key == "":
			return inventory.NewOrderID(sale, user), Outcome{}
		case len(key) > maxIdempotencyKey:
			return "", refuseWith(BadRequest, "Idempotency-Key: at most 128 bytes")
		}
		return inventory.DeriveOrderID(g.cfg.Keys.Order, sale, user, key), Outcome{}
	}
	if token := g.passToken(x, w.pass); token != "" {
		return g.fromPass(x, token)
	}
	if w.challenge != "" && w.answer != "" {
		return g.solveInline(x, w)
	}
	return "", Outcome{Kind: CaptchaRequired, Extra: map[string]any{"sale": sale, "challenges": g.cfg.Prefix + "/challenges", "page": g.salePage(sale)}}
}

func (g *Gateway) fromPass(x *exchange, token string) (string, Outcome) {
	p, err := g.deps.Captcha.Verify(token)
	switch {
	case errors.Is(err, captcha.ErrPassExpired) && g.ours(x, p):
		return "", Outcome{Kind: CaptchaRequired, Detail: "Your pass has expired. If it bought something, the reservation tells.", Location: g.reservationPath(p.OrderID)}
	case err != nil || !g.ours(x, p):
		return "", refuse(CaptchaInvalid)
	}
	x.pass = p
	return p.OrderID, Outcome{}
}

// ours says whether a signed pass belongs to this caller and this sale.
func (g *Gateway) ours(x *exchange, p captcha.Pass) bool {
	return p.User == x.caller.User && p.Sale == x.view.Sale.ID && p.Item == x.view.Sale.Item
}

// solveInline takes a challenge and its answer in the place of a pass.
func (g *Gateway) solveInline(x *exchange, w wish) (string, Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), solveTimeout)
	defer cancel()
	token, p, err := g.deps.Captcha.Solve(ctx, w.challenge, x.caller.User, w.answer)
	if err != nil {
		return "", g.unsolved(x, err, x.view.Sale)
	}
	if !g.ours(x, p) {
		return "", refuse(CaptchaInvalid)
	}
	x.pass, x.token = p, token
	return p.OrderID, Outcome{}
}

// keepPass hands out a pass that was made in this very request and bought
// nothing yet, so that the solve is not lost.
func (g *Gateway) keepPass(x *exchange, out Outcome) Outcome {
	if x.token == "" {
		return out
	}
	if out.Extra == nil {
		out.Extra = map[string]any{}
	}
	out.Extra["pass"] = x.token
	out.Extra["pass_expires_at"] = stamp(x.pass.Expires)
	return out
}

// signed says that a pass bears our signature, be it expired or not.
func signed(err error) bool { return err == nil || errors.Is(err, captcha.ErrPassExpired) }

// passToken finds the pass: header, form field, cookie.
func (g *Gateway) passToken(x *exchange, field string) string {
	h := &x.c.Request().Header
	if t := h.Peek("Weir-Pass"); len(t) > 0 {
		return string(t)
	}
	if field != "" {
		return field
	}
	return string(h.Cookie(g.passCookie(x, x.view.Sale.ID)))
}

// passCookie is the cookie's name; the __Host- prefix needs TLS.
func (g *Gateway) passCookie(x *exchange, sale string) string {
	if x.caller.Secure {
		return "__Host-weir_pass_" + sale
	}
	return "weir_pass_" + sale
}
