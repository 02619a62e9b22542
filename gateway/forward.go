package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/httpsig"
	"weir/inventory"
)

// forward is hop 10. What owns a unit goes to the shop, once; then the
// shop's answer is settled, hop 11. On a proxied route it only goes there.
func (g *Gateway) forward(x *exchange) Outcome {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	resp.Header.SetNoDefaultContentType(true)
	g.shopRequest(x, req)
	if x.buying() {
		g.sign(x, req)
	}
	within := g.forwardTime(x)
	err := errNotSent // too little time is left to send it
	started := time.Now()
	if within > 0 {
		err = g.send(x, req, resp, within)
	}
	g.seen.upstream.Observe(time.Since(started).Seconds())
	if err == nil && (!x.buying() || !g.unsettledStatus(resp)) {
		return g.answered(x, resp)
	}
	status := resp.StatusCode()
	fasthttp.ReleaseResponse(resp)
	return g.unanswered(x, err, status)
}

// send hands the request to the shop: an order on a connection of its own.
func (g *Gateway) send(x *exchange, req *fasthttp.Request, resp *fasthttp.Response, within time.Duration) error {
	if x.buying() {
		return g.shop.order(req, resp, within)
	}
	return g.shop.page(req, resp)
}

// forwardTime is how long this attempt may run. No forward starts with less
// of its attempt left than it takes to be sent and settled.
func (g *Gateway) forwardTime(x *exchange) time.Duration {
	if !x.buying() {
		return g.cfg.Upstream.Timeout
	}
	left := x.result.Reservation.AttemptUntil.Sub(g.deps.Now()) - attemptMargin/2
	return min(g.cfg.Upstream.Timeout, left)
}

// verdict is what the shop's answer says about the unit.
type verdict int

const (
	accepted verdict = iota
	refused          // the unit goes back
	unclear          // the unit stays reserved until the shop is asked
)

// judgeReply reads the shop's answer: its Weir-Settle header first, then the
// status. 409, 429 and 5xx are no answer to the question whether an order exists.
func (g *Gateway) judgeReply(resp *fasthttp.Response) verdict {
	switch strings.ToLower(text(resp.Header.Peek("Weir-Settle"))) {
	case "accept":
		return accepted
	case "release":
		return refused
	}
	status := resp.StatusCode()
	switch {
	case status >= 200 && status < 400:
		return accepted
	case slices.Contains(g.cfg.Upstream.ReleaseStatuses, status):
		return refused
	}
	return unclear
}

func (g *Gateway) unsettledStatus(resp *fasthttp.Response) bool {
	return g.judgeReply(resp) == unclear
}

// answered settles an answer that says something and passes it on.
func (g *Gateway) answered(x *exchange, resp *fasthttp.Response) Outcome {
	out := Outcome{Kind: Forwarded, answer: g.answerUpstream(resp)}
	if !x.buying() {
		return out
	}
	order := string(resp.Header.Peek("Weir-Order"))
	if len(order) > maxShopOrder {
		order = order[:maxShopOrder]
	}
	switch g.judgeReply(resp) {
	case accepted:
		out.Location = g.reservationPath(x.order.ID)
		out.Fault = g.settle(x, settleAccept, order)
	case refused:
		out.Kind = ShopRefused
		out.Fault = g.settle(x, settleRelease, "")
	}
	return out
}

// unanswered is a forward without a usable answer.
func (g *Gateway) unanswered(x *exchange, err error, status int) Outcome {
	notSent := errors.Is(err, errNotSent)
	if !x.buying() {
		kind := UpstreamFailed
		if isTimeout(err) {
			kind = UpstreamTimeout
		}
		return Outcome{Kind: kind, Detail: "The shop cannot be reached right now.", Fault: err}
	}
	// Of a repeat nothing was sent either, but an earlier attempt may have
	// reached the shop: only its own word frees the unit then.
	if notSent && x.result.Reservation.Attempt == 1 {
		fault := g.settle(x, settleRelease, "")
		return Outcome{Kind: UpstreamFailed, Fault: errors.Join(err, fault)}
	}
	out := Outcome{Kind: UpstreamUnknown, Location: g.reservationPath(x.order.ID), RetryAfter: g.until(x.result.Reservation.AttemptUntil), Fault: err}
	if isTimeout(err) {
		out.Kind = UpstreamTimeout
	}
	if err == nil {
		out.Fault = errors.New("the shop answered " + strconv.Itoa(status) + " " + http.StatusText(status))
	}
	return out
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, fasthttp.ErrTimeout) || errors.As(err, &t) && t.Timeout()
}

// shopRequest builds what the shop gets: the client's own headers without
// those of its connection, and ours set anew.
func (g *Gateway) shopRequest(x *exchange, req *fasthttp.Request) {
	in := &x.c.Request().Header
	dropped := connectionNames(in.PeekAll("Connection"))
	for name, value := range in.All() {
		n := text(name)
		if isHop(n) || isOurs(n) || slices.Contains(dropped, strings.ToLower(n)) || g.identityHeader(n) {
			continue
		}
		req.Header.AddBytesKV(name, value)
	}
	req.Header.SetMethodBytes(in.Method())
	_, query, _ := strings.Cut(text(in.RequestURI()), "?")
	g.shop.target(req, x.path, query)
	if cookies := g.shopCookies(string(in.Peek("Cookie"))); cookies != "" {
		req.Header.Set("Cookie", cookies)
	}
	addr := x.caller.Addr.String()
	scheme := "http"
	if x.caller.Secure {
		scheme = "https"
	}
	req.Header.Set("X-Forwarded-For", addr)
	req.Header.Set("X-Real-Ip", addr)
	req.Header.SetBytesV("X-Forwarded-Host", in.Host())
	req.Header.Set("X-Forwarded-Proto", scheme)
	req.Header.Set("X-Request-Id", x.id)
	if x.buying() {
		req.SetBodyRaw(x.body)
	} else {
		req.SetBodyRaw(x.c.Request().Body())
	}
}

// identityHeader names a configured header that stands for a user or device:
// the shop gets it from nobody but us, as Weir-User.
func (g *Gateway) identityHeader(name string) bool {
	id := g.cfg.Identity
	return id.Header != "" && strings.EqualFold(name, id.Header) || id.DeviceHeader != "" && strings.EqualFold(name, id.DeviceHeader)
}

// shopCookies are the client's cookies without weir's own.
func (g *Gateway) shopCookies(line string) string {
	if line == "" {
		return ""
	}
	kept := make([]string, 0, 8)
	for c := range strings.SplitSeq(line, ";") {
		c = strings.TrimSpace(c)
		name, _, _ := strings.Cut(c, "=")
		own := strings.HasPrefix(name, "weir_pass_") || strings.HasPrefix(name, "__Host-weir_pass_") || name == g.cfg.Identity.DeviceCookie
		if c != "" && !own {
			kept = append(kept, c)
		}
	}
	return strings.Join(kept, "; ")
}

// sign adds what the shop may rely on, and the signature over it (RFC 9421).
func (g *Gateway) sign(x *exchange, req *fasthttp.Request) {
	r := x.result.Reservation
	h := map[string]string{
		"weir-reservation": r.ID,
		"weir-attempt":     strconv.Itoa(r.Attempt),
		"weir-sale":        r.Sale,
		"weir-item":        r.Item,
		"weir-quantity":    strconv.FormatInt(r.Quantity, 10),
		"weir-user":        r.User,
		"weir-expires":     stamp(r.ExpiresAt),
		"idempotency-key":  r.ID,
	}
	g.shop.sign(req, h)
}

// sign sets headers h, the digest of the body and the signature over all.
func (s *shop) sign(req *fasthttp.Request, h map[string]string) {
	h["content-digest"] = httpsig.Digest(req.Body())
	path, query, _ := strings.Cut(string(req.Header.RequestURI()), "?")
	input, signature := httpsig.Sign(s.key, s.cfg.KeyID, s.now(), httpsig.Message{
		Method: string(req.Header.Method()), Path: path, RawQuery: query, Header: h,
	})
	for name, value := range h {
		req.Header.Set(name, value)
	}
	req.Header.Set("Signature-Input", input)
	req.Header.Set("Signature", signature)
}

// maxShopOrder bounds the shop's order id that the ledger keeps, in bytes.
const maxShopOrder = 128

// mayConfirm says whether acceptance alone sells the unit.
func mayConfirm(s inventory.Sale) bool { return s.Settle == inventory.SettleAccept }
