package gateway

import (
	"net/url"
	"strings"
)

// sameSite refuses unsafe requests that a browser marks as sent from another
// site, so that no page elsewhere can buy, or burn a captcha, in a visitor's
// name. Clients that are no browser send neither header and pass.
func (g *Gateway) sameSite(x *exchange) Outcome {
	h := &x.c.Request().Header
	switch text(h.Method()) {
	case "GET", "HEAD", "OPTIONS":
		return Outcome{}
	}
	switch text(h.Peek("Sec-Fetch-Site")) {
	case "same-origin", "none":
		return Outcome{}
	case "cross-site":
		return refuse(CrossSite)
	}
	origin := text(h.Peek("Origin"))
	if origin == "" || strings.EqualFold(origin, g.origin(x)) {
		return Outcome{}
	}
	// Without a public URL our own scheme is a guess (TLS may end before us),
	// so only the host decides.
	if u, err := url.Parse(origin); g.cfg.PublicURL == nil && err == nil && strings.EqualFold(u.Host, text(h.Host())) {
		return Outcome{}
	}
	return refuse(CrossSite)
}

// origin is how a browser names this site.
func (g *Gateway) origin(x *exchange) string {
	if u := g.cfg.PublicURL; u != nil {
		return u.Scheme + "://" + u.Host
	}
	scheme := "http://"
	if x.caller.Secure {
		scheme = "https://"
	}
	return scheme + string(x.c.Request().Header.Host())
}

// crossSite says that another site's page made the browser ask. What it asks
// is no offence of the visitor's, or any page could have him shut out.
func crossSite(x *exchange) bool {
	return text(x.c.Request().Header.Peek("Sec-Fetch-Site")) == "cross-site"
}
