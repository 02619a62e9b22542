package gateway

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"weir/gateway/pages"
	"weir/internal/problem"
	"weir/inventory"
)

// write is hop 12, the one place that answers. What a stage decided becomes
// status, headers and body here.
func (g *Gateway) write(x *exchange, out Outcome) {
	resp := x.c.Response()
	if out.answer != nil {
		resp.SetStatusCode(table[out.Kind].status)
		if out.Allow != "" {
			resp.Header.Set("Allow", out.Allow)
		}
		out.answer(x)
		if out.Kind == FromLedger {
			resp.Header.Set("Content-Location", out.Location)
		}
	} else {
		g.writeRefusal(x, out)
	}
	if x.token != "" {
		resp.Header.Set("Weir-Pass", x.token)
		resp.Header.Set("Cache-Control", "no-store")
	}
	resp.Header.Set("X-Request-Id", x.id)
	x.status = resp.StatusCode()
}

func (g *Gateway) writeRefusal(x *exchange, out Outcome) {
	r := table[out.Kind]
	h := &x.c.Response().Header
	x.c.Response().SetStatusCode(r.status)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	wait := out.RetryAfter
	if wait == 0 {
		wait = r.retry
	}
	retry := 0
	if r.retry > 0 {
		retry = retrySeconds(wait, rand.Uint32())
		h.Set("Retry-After", itoa(retry))
	}
	if out.Kind == UserRequired {
		h.Set("WWW-Authenticate", `Bearer realm="shop"`)
	}
	if out.Allow != "" {
		h.Set("Allow", out.Allow)
	}
	if out.Location != "" {
		h.Set("Location", out.Location)
	}
	detail := out.Detail
	if detail == "" {
		detail = r.detail
	}
	if prefersHTML(text(x.c.Request().Header.Peek("Accept"))) {
		g.refusalPage(x, out, detail, retry)
		return
	}
	h.SetContentType(problem.ContentType)
	if out.Location == "" && out.Detail == "" && out.Extra == nil {
		x.c.Response().SetBodyRaw(g.plain.body(out.Kind, x.id, retry))
		return
	}
	if out.Location != "" {
		if out.Extra == nil {
			out.Extra = map[string]any{}
		}
		out.Extra["reservation"] = out.Location
	}
	p := problem.Problem{Title: r.title, Status: r.status, Code: r.code, Detail: detail, RequestID: x.id, RetryAfter: retry, Extra: out.Extra}
	x.c.Response().SetBodyRaw(p.JSON())
}

// refusalPage is the same for people.
func (g *Gateway) refusalPage(x *exchange, out Outcome, detail string, retry int) {
	r := table[out.Kind]
	shown := pages.Refusal{
		Prefix: g.cfg.Prefix, Status: r.status, Code: r.code, Title: r.title, Detail: detail,
		RequestID: x.id, RetryAfter: retry, ReservationURL: out.Location,
	}
	g.waysOn(x, out.Kind, &shown)
	g.html(x, func(w *bytes.Buffer) error {
		return pages.RenderRefusal(w, shown)
	})
}

// html renders a page with the headers that all of weir's pages carry.
func (g *Gateway) html(x *exchange, render func(*bytes.Buffer) error) {
	var body bytes.Buffer
	h := &x.c.Response().Header
	if err := render(&body); err != nil {
		g.deps.Log.Error("rendering a page", "err", err, "request_id", x.id)
		x.c.Response().SetStatusCode(fiber.StatusInternalServerError)
		return
	}
	h.SetContentType("text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pages.CSP)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	x.c.Response().SetBodyRaw(body.Bytes())
}

// prefersHTML is true for browsers that navigate: they name text/html, and
// before any JSON.
func prefersHTML(accept string) bool {
	html := strings.Index(accept, "text/html")
	if html < 0 {
		return false
	}
	plain := strings.Index(accept, "json")
	return plain < 0 || html < plain
}

func (g *Gateway) json(x *exchange, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		g.deps.Log.Error("encoding an answer", "err", err, "request_id", x.id)
		status, raw = fiber.StatusInternalServerError, []byte("{}")
	}
	h := &x.c.Response().Header
	h.SetContentType("application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if len(h.Peek("Cache-Control")) == 0 {
		h.Set("Cache-Control", "no-store")
	}
	x.c.Response().SetStatusCode(status)
	x.c.Response().SetBodyRaw(raw)
}

// answerUpstream passes the shop's answer on, without what belonged to its
// connection and without what it told weir alone.
func (g *Gateway) answerUpstream(from *fasthttp.Response) func(*exchange) {
	return func(x *exchange) {
		defer fasthttp.ReleaseResponse(from)
		to := x.c.Response()
		to.SetStatusCode(from.StatusCode())
		dropped := connectionNames(from.Header.PeekAll("Connection"))
		for name, value := range from.Header.All() {
			n := strings.ToLower(text(name))
			if isHop(n) || n == "weir-settle" || n == "server" || contains(dropped, n) {
				continue
			}
			if n == "location" {
				value = []byte(g.localLocation(string(value)))
			}
			if n == "set-cookie" || n != "content-type" && n != "date" {
				to.Header.AddBytesKV(name, value)
				continue
			}
			to.Header.SetBytesKV(name, value)
		}
		if x.buying() {
			to.Header.Set("Weir-Reservation", x.order.ID)
			to.Header.Set("Cache-Control", "no-store")
		}
		if string(x.c.Request().Header.Method()) == fiber.MethodHead {
			to.SkipBody = true
			to.Header.SetContentLength(from.Header.ContentLength())
			return
		}
		to.SetBody(from.Body())
	}
}

// localLocation keeps redirects to the shop's inner address on this site.
func (g *Gateway) localLocation(to string) string {
	u, err := url.Parse(to)
	if err != nil || !strings.EqualFold(u.Host, g.cfg.Upstream.URL.Host) {
		return to
	}
	// One slash at the front: two would name another host.
	return "/" + strings.TrimLeft(u.RequestURI(), "/\\") + fragment(u)
}

func fragment(u *url.URL) string {
	if u.Fragment == "" {
		return ""
	}
	return "#" + u.EscapedFragment()
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// answerReservation shows a reservation of the ledger.
func (g *Gateway) answerReservation(r inventory.Reservation) func(*exchange) {
	return func(x *exchange) {
		if !prefersHTML(text(x.c.Request().Header.Peek("Accept"))) {
			g.json(x, fiber.StatusOK, reservationJSON(r))
			return
		}
		shown := g.onPage(r)
		g.html(x, func(w *bytes.Buffer) error {
			return pages.RenderReservation(w, g.cfg.Prefix, shown, g.salePage(r.Sale))
		})
	}
}

func reservationJSON(r inventory.Reservation) map[string]any {
	out := map[string]any{"id": r.ID, "sale": r.Sale, "state": r.State, "item": r.Item, "quantity": r.Quantity, "expires_at": stamp(r.ExpiresAt)}
	if r.ShopOrder != "" {
		out["order"] = r.ShopOrder
	}
	return out
}

func answerOptions(x *exchange) { x.c.Response().SetStatusCode(fiber.StatusNoContent) }

// setCookie sets one of weir's cookies: never readable by scripts, Secure
// wherever the client came by TLS.
func (g *Gateway) setCookie(x *exchange, name, value string, age time.Duration, site fasthttp.CookieSameSite) {
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey(name)
	c.SetValue(value)
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSecure(x.caller.Secure)
	c.SetSameSite(site)
	c.SetMaxAge(int(age.Seconds()))
	x.c.Response().Header.SetCookie(c)
}

// refuseRaw answers a request that never became one: a fixed body, nothing of
// the request in it, and the connection is closed.
func (g *Gateway) refuseRaw(c *fasthttp.RequestCtx, kind Kind) {
	r := table[kind]
	id := g.ids.next()
	c.Response.Reset()
	c.Response.SetStatusCode(r.status)
	c.Response.Header.SetContentType(problem.ContentType)
	c.Response.Header.Set("Cache-Control", "no-store")
	c.Response.Header.Set("X-Request-Id", id)
	c.Response.SetConnectionClose()
	c.Response.SetBodyRaw(problem.Problem{Title: r.title, Status: r.status, Code: r.code, RequestID: id}.JSON())
	caller := Caller{Addr: peerAddr(c.RemoteAddr())}
	g.seen.countRaw(kind)
	if table[kind].offence && !g.who.trusts(caller.Addr) {
		g.judge.tell(caller, kind)
	}
	if g.log.refusals.Allow() {
		g.deps.Log.Info("request", "request_id", id, "outcome", kind.label(), "status", r.status, "addr", caller.Addr.String())
	}
}
