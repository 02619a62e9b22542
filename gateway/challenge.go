package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/url"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"weir/captcha"
	"weir/inventory"
	"weir/limiter"
)

const imagePrompt = "Type the digits you see or hear."

// fields reads a small JSON object or form of strings; nil when it is neither.
func fields(x *exchange, names ...string) map[string]string {
	out := make(map[string]string, len(names))
	body := x.c.Request().Body()
	kind, _, _ := mime.ParseMediaType(string(x.c.Request().Header.ContentType()))
	switch {
	case kind == "application/x-www-form-urlencoded":
		for _, n := range names {
			out[n] = string(x.c.Request().PostArgs().Peek(n))
		}
	case len(body) == 0:
	case kind == "application/json":
		var in map[string]any
		if json.Unmarshal(body, &in) != nil {
			return nil
		}
		for _, n := range names {
			if v, there := in[n]; there {
				s, ok := v.(string)
				if !ok {
					return nil
				}
				out[n] = s
			}
		}
	default:
		return nil
	}
	return out
}

const notFields = "body: must be a JSON object of strings, or a form"

// issueChallenge draws a captcha for a user and a sale. It may be asked for
// before the sale opens, so that solving happens outside the rush.
func (g *Gateway) issueChallenge(x *exchange) Outcome {
	in := fields(x, "sale", "kind")
	if in == nil {
		return refuseWith(BadRequest, notFields)
	}
	if in["sale"] == "" {
		return refuseWith(BadRequest, "sale: name the sale that the pass is for")
	}
	v, ok := g.deps.Stock.View(in["sale"])
	if !ok {
		return refuseWith(NotFound, "There is no such sale.")
	}
	x.view = v
	if out := g.closed(v); out.Kind != goOn && out.Kind != SaleNotStarted {
		return g.linkWinner(x, out)
	}
	if d := take(g.pictures, limiter.Keys{x.caller.User}); !d.OK {
		return Outcome{Kind: RateLimited, RetryAfter: d.RetryAfter}
	}
	ch, out := g.issue(x, v.Sale, in["kind"])
	if out.Kind != goOn {
		return out
	}
	return ownAnswer(func(x *exchange) {

		if prefersHTML(text(x.c.Request().Header.Peek("Accept"))) {
			see(x, g.challengePage(v.Sale.ID, ch.ID, ""))
			return
		}
		g.json(x, fiber.StatusCreated, g.challengeJSON(ch))
	})
}

func (g *Gateway) challengePage(sale, id, code string) string {
	q := url.Values{"challenge": {id}}
	if code != "" {
		q.Set("note", code)
	}
	return g.salePage(sale) + "?" + q.Encode()
}

func (g *Gateway) issue(x *exchange, sale inventory.Sale, kind string) (captcha.Challenge, Outcome) {
	if kind == "" {
		kind = "image"
	}
	ctx, cancel := context.WithTimeout(context.Background(), captchaTimeout)
	defer cancel()
	var many *captcha.TooManyError
	ch, err := g.deps.Captcha.Issue(ctx, captcha.Binding{User: x.caller.User, Sale: sale.ID, Item: sale.Item, Device: x.caller.Device}, kind)
	switch {
	case errors.Is(err, captcha.ErrKind):
		return ch, refuseWith(BadRequest, "kind: this sale offers image")
	case errors.As(err, &many):
		return ch, Outcome{Kind: RateLimited, RetryAfter: many.RetryAfter}
	case err != nil:
		return ch, Outcome{Kind: CaptchaUnavailable, Fault: err}
	}
	return ch, Outcome{}
}

func (g *Gateway) challengeJSON(ch captcha.Challenge) map[string]any {
	base := g.cfg.Prefix + "/challenges/" + ch.ID
	return map[string]any{
		"id": ch.ID, "kind": ch.Kind, "prompt": ch.Prompt,
		"image": base + "/image", "audio": base + "/audio", "expires_at": stamp(ch.ExpiresAt),
	}
}

func (g *Gateway) showImage(x *exchange) Outcome {
	return g.media(x, "image/png", g.deps.Captcha.Picture)
}

func (g *Gateway) playAudio(x *exchange) Outcome {
	return g.media(x, "audio/wav", g.deps.Captcha.Sound)
}

func (g *Gateway) media(x *exchange, kind string, draw func(context.Context, string, string) ([]byte, error)) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), captchaTimeout)
	defer cancel()
	body, err := draw(ctx, x.param, x.caller.User)
	switch {
	case errors.Is(err, captcha.ErrUnknown):
		return refuse(NotFound)
	case errors.Is(err, captcha.ErrExpired):
		return refuse(CaptchaExpired)
	case err != nil:
		return Outcome{Kind: CaptchaUnavailable, Fault: err}
	}
	return ownAnswer(func(x *exchange) {
		h := &x.c.Response().Header
		h.SetContentType(kind)
		h.Set("Cache-Control", "private, no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		x.c.Response().SetBodyRaw(body)
	})
}

// solveChallenge checks an answer. Right or wrong, the challenge is burned.
func (g *Gateway) solveChallenge(x *exchange) Outcome {
	in := fields(x, "answer")
	if in == nil {
		return refuseWith(BadRequest, notFields)
	}
	ctx, cancel := context.WithTimeout(context.Background(), captchaTimeout)
	defer cancel()
	token, p, err := g.deps.Captcha.Solve(ctx, x.param, x.caller.User, in["answer"])
	if err != nil {
		return g.unsolvedOnPage(x, g.unsolved(x, err, g.saleOf(p)), p.Sale)
	}
	return ownAnswer(func(x *exchange) {
		v, _ := g.deps.Stock.View(p.Sale)
		x.view = v
		g.setCookie(x, g.passCookie(x, p.Sale), token, g.cfg.PassTTL, fasthttp.CookieSameSiteStrictMode)
		g.markDevice(x)
		if prefersHTML(text(x.c.Request().Header.Peek("Accept"))) {
			see(x, g.salePage(p.Sale))
			return
		}
		g.json(x, fiber.StatusOK, map[string]any{"pass": token, "expires_at": stamp(p.Expires)})
	})
}

func (g *Gateway) saleOf(p captcha.Pass) inventory.Sale {
	v, _ := g.deps.Stock.View(p.Sale)
	return v.Sale
}

// unsolved maps a failed answer. After a wrong one a fresh challenge comes
// with the refusal, so that nobody has to ask twice; it counts like any other.
func (g *Gateway) unsolved(x *exchange, err error, sale inventory.Sale) Outcome {
	switch {
	case errors.Is(err, captcha.ErrUnknown):
		return refuse(NotFound)
	case errors.Is(err, captcha.ErrExpired):
		return refuse(CaptchaExpired)
	case !errors.Is(err, captcha.ErrWrong) && !errors.Is(err, captcha.ErrForeign):
		return Outcome{Kind: CaptchaUnavailable, Fault: err}
	}
	out := refuse(CaptchaWrong)
	if sale.ID == "" || !take(g.pictures, limiter.Keys{x.caller.User}).OK {
		return out
	}
	if ch, bad := g.issue(x, sale, ""); bad.Kind == goOn {
		out.Extra = map[string]any{"challenge": g.challengeJSON(ch)}
	}
	return out
}

// unsolvedOnPage sends a form back to its page, with the fresh challenge.
func (g *Gateway) unsolvedOnPage(x *exchange, out Outcome, sale string) Outcome {
	fresh, _ := out.Extra["challenge"].(map[string]any)
	if sale == "" || fresh == nil || !prefersHTML(text(x.c.Request().Header.Peek("Accept"))) {
		return out
	}
	id, _ := fresh["id"].(string)
	out.answer = func(x *exchange) { see(x, g.challengePage(sale, id, table[CaptchaWrong].code)) }
	return out
}
