package gateway

import (
	"slices"

	"weir/gateway/pages"
	"weir/inventory"
)

// waysOn adds to a refusal for people what they can do next. A way that is not
// known to lead anywhere is left away.
func (g *Gateway) waysOn(x *exchange, kind Kind, p *pages.Refusal) {
	if kind == Blacklisted {
		return
	}
	sale := g.saleAround(x)
	if sale.ID != "" {
		p.BackURL = g.salePage(sale.ID)
	}
	if g.hasHome(x) {
		p.ShopURL = "/"
	}
	switch kind {
	case UserRequired:
		p.SignInURL = g.signInTo(g.comeBack(x, p))
		p.BackURL = ""
	case SaleNotStarted:
		p.StartsAt = sale.StartAt
	case UpstreamUnknown, UpstreamTimeout, OutcomeUnknown, InProgress, InventoryUnavailable, Overloaded, SharedLimited, NoneFreeNow:
		g.askAgain(x, p)
	}
}

// saleAround is the sale that a refused request was about, as far as the
// caller named it himself: whose reservation it is must not show.
func (g *Gateway) saleAround(x *exchange) inventory.Sale {
	v := x.view
	switch {
	case x.page != nil && x.page.name == "reservation":
		return inventory.Sale{}
	case v.Sale.ID != "":
	case x.buying():
		v, _ = g.deps.Stock.ViewOfItem(x.param)
	case x.page != nil && x.page.name == "challenge":
		v, _ = g.deps.Stock.View(fields(x, "sale")["sale"])
	}
	return v.Sale
}

// comeBack is where a visitor wants to be once he has signed in.
func (g *Gateway) comeBack(x *exchange, p *pages.Refusal) string {
	if p.BackURL != "" {
		return p.BackURL
	}
	if method := text(x.c.Request().Header.Method()); method == "GET" || method == "HEAD" {
		return x.path
	}
	return "/"
}

// hasHome says whether the shop shows a front page to this caller, and it is
// not the page that was just refused.
func (g *Gateway) hasHome(x *exchange) bool {
	return x.path != "/" && slices.ContainsFunc(g.routes, func(r route) bool {
		_, ok := r.match("/")
		return ok && r.cfg.Kind != Buy && slices.Contains(r.cfg.Methods, "GET") && (!r.cfg.Auth || x.caller.User != "")
	})
}

// askAgain offers the same order once more, when the cookie holds its very
// pass: without one a repeat would be a second order.
func (g *Gateway) askAgain(x *exchange, p *pages.Refusal) {
	if x.order.ID == "" {
		return
	}
	path, r := g.buyPath(x.order.Item)
	if r != x.route || !r.cfg.Captcha {
		return
	}
	if pass, err := g.deps.Captcha.Verify(g.passToken(x, "")); err != nil || pass.OrderID != x.order.ID {
		return
	}
	p.AskAgain = path
	if x.view.Sale.MaxQuantity > 1 {
		p.Quantity = x.order.Quantity
	}
}
