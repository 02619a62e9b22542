package gateway

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"mime"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/gateway/pages"
	"weir/inventory"
)

// ownRoute is one of weir's own paths, below the prefix. An empty segment of
// its pattern matches any one segment, the parameter.
type ownRoute struct {
	name   string
	method string
	path   string // with * for the parameter
	auth   bool   // needs a signed-in user
	serve  func(*exchange) Outcome
}

// ownRoutes is the public API of docs/api.md.
func (g *Gateway) ownRoutes() []ownRoute {
	return []ownRoute{
		{"sale", "GET", "/sales/*", false, g.showSale},
		{"page", "GET", "/sales/*/page", false, g.showPage},
		{"challenge", "POST", "/challenges", true, g.issueChallenge},
		{"image", "GET", "/challenges/*/image", true, g.showImage},
		{"audio", "GET", "/challenges/*/audio", true, g.playAudio},
		{"solve", "POST", "/challenges/*", true, g.solveChallenge},
		{"reservation", "GET", "/reservations/*", false, g.showReservation},
		{"asset", "GET", "/assets/*", false, g.showAsset},
	}
}

// ownRoute is hop 4 below weir's prefix; nothing there is ever forwarded.
func (g *Gateway) ownRoute(x *exchange, method string) Outcome {
	rest := strings.TrimPrefix(x.path, g.cfg.Prefix)
	var allowed []string
	for i := range g.own {
		r := &g.own[i]
		param, ok := matchOwn(r.path, rest)
		if !ok {
			continue
		}
		if r.method == method || r.method == "GET" && method == "HEAD" {
			x.page, x.param = r, strings.Clone(param)
			if r.auth && x.caller.User == "" {
				return refuse(UserRequired)
			}
			return g.sameSite(x)
		}
		allowed = append(allowed, r.method)
		if r.method == "GET" {
			allowed = append(allowed, "HEAD")
		}
	}
	if len(allowed) == 0 {
		return refuse(NotFound)
	}
	allow := strings.Join(append(allowed, "OPTIONS"), ", ")
	if method == "OPTIONS" {
		return Outcome{Kind: Own, Allow: allow, answer: answerOptions}
	}
	return Outcome{Kind: Method, Allow: allow, Detail: "This path takes " + allow + "."}
}

func matchOwn(pattern, path string) (param string, ok bool) {
	for pattern != "" || path != "" {
		want, restPattern, _ := strings.Cut(strings.TrimPrefix(pattern, "/"), "/")
		got, restPath, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if got == "" || want == "" || want != "*" && want != got || more && restPath == "" {
			return "", false
		}
		if want == "*" {
			param = got
		}
		pattern, path = restPattern, restPath
	}
	return param, true
}

// ownPage ends the walk for weir's own paths.
func (g *Gateway) ownPage(x *exchange) Outcome {
	if x.page == nil {
		return Outcome{}
	}
	return x.page.serve(x)
}

func ownAnswer(answer func(*exchange)) Outcome { return Outcome{Kind: Own, answer: answer} }

func (g *Gateway) salePage(sale string) string {
	return g.cfg.Prefix + "/sales/" + url.PathEscape(sale) + "/page"
}

// showSale tells the state of a sale; caches may keep it for a second.
func (g *Gateway) showSale(x *exchange) Outcome {
	v, ok := g.deps.Stock.View(x.param)
	if !ok {
		return refuseWith(NotFound, "There is no such sale.")
	}
	now := g.deps.Now()
	return ownAnswer(func(x *exchange) {
		x.c.Response().Header.Set("Cache-Control", "public, max-age=1")
		g.json(x, fiber.StatusOK, map[string]any{
			"id": v.Sale.ID, "item": v.Sale.Item, "state": v.StateAt(now),
			"starts_at": stamp(v.Sale.StartAt), "ends_at": stamp(v.Sale.EndAt), "now": stamp(now),
			"sold_out": v.SoldOut, "captcha": g.captchaFor(v.Sale.Item), "page": g.salePage(v.Sale.ID),
		})
	})
}

// captchaFor says whether the route that sells item asks for a pass.
func (g *Gateway) captchaFor(item string) bool {
	_, r := g.buyPath(item)
	return r != nil && r.cfg.Captcha
}

// buyPath is where item is bought: the first buy route.
func (g *Gateway) buyPath(item string) (string, *route) {
	for i := range g.routes {
		r := &g.routes[i]
		if r.cfg.Kind == Buy {
			return strings.ReplaceAll(r.cfg.Path, "{item}", item), r
		}
	}
	return "", nil
}

// showPage is the buyer's page.
func (g *Gateway) showPage(x *exchange) Outcome {
	v, ok := g.deps.Stock.View(x.param)
	if !ok {
		return refuseWith(NotFound, "There is no such sale.")
	}
	x.view = v
	b := g.buyPage(x, v)
	return ownAnswer(func(x *exchange) {
		g.markDevice(x)
		g.html(x, func(w *bytes.Buffer) error { return pages.RenderBuy(w, b) })
	})
}

func (g *Gateway) buyPage(x *exchange, v inventory.View) pages.Buy {
	now := g.deps.Now()
	path, r := g.buyPath(v.Sale.Item)
	b := pages.Buy{
		Prefix: g.cfg.Prefix, Sale: v.Sale.ID, Item: v.Sale.Item, ItemName: g.cfg.Items[v.Sale.Item], BuyPath: path,
		State: string(v.StateAt(now)), StartsAt: v.Sale.StartAt, EndsAt: v.Sale.EndAt, Now: now,
		SoldOut: v.SoldOut, MaxQuantity: v.Sale.MaxQuantity,
		SignedIn: x.caller.User != "", SignInURL: g.signInURL(v.Sale.ID),
		NeedsCaptcha: r != nil && r.cfg.Captcha,
	}
	if p, err := g.deps.Captcha.Verify(g.passToken(x, "")); signed(err) && g.ours(x, p) {
		b.HasPass, b.PassExpires, b.OrderID = err == nil, p.Expires, p.OrderID
		g.addReservation(&b, p.OrderID)
		if r := b.Reservation; r != nil && orderAgain(inventory.State(r.State), v.Sale) {
			x.pass, b.HasPass, b.MayBuyMore = p, false, r.State == string(inventory.Confirmed)
			g.forget(x)
		}
	}
	args := x.c.Request().URI().QueryArgs()
	if id := string(args.Peek("challenge")); id != "" && !b.HasPass {
		b.Challenge = g.challengeOnPage(id)
	}
	b.MessageCode = string(args.Peek("note"))
	b.Message = note(b.MessageCode)
	return b
}

// orderAgain says that a pass has done its work and the next solve is to make
// a new order: nothing came of this one, or the buyer may have more.
func orderAgain(state inventory.State, sale inventory.Sale) bool {
	return state != inventory.Reserved && (state != inventory.Confirmed || sale.BuyerLimit != 1)
}

// challengeOnPage shows a challenge that was just issued. The picture itself
// decides whether it is still there.
func (g *Gateway) challengeOnPage(id string) *pages.Challenge {
	if len(id) > 256 || strings.ContainsAny(id, "/?#%") {
		return nil
	}
	base := g.cfg.Prefix + "/challenges/" + id
	return &pages.Challenge{ID: id, Prompt: imagePrompt, ImageURL: base + "/image", AudioURL: base + "/audio"}
}

// note is the text for a result that a form's redirect carries.
func note(code string) string {
	for _, k := range []Kind{CaptchaWrong, CaptchaExpired, CaptchaUnavailable, RateLimited} {
		if table[k].code == code {
			return table[k].detail
		}
	}
	return ""
}

func (g *Gateway) addReservation(b *pages.Buy, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), reserveTimeout)
	defer cancel()
	r, err := g.deps.Stock.Find(ctx, id)
	if err != nil {
		return
	}
	shown := g.onPage(r)
	b.Reservation = &shown
}

// onPage is a reservation as the pages show it.
func (g *Gateway) onPage(r inventory.Reservation) pages.Reservation {
	shown := pages.Reservation{ID: r.ID, State: string(r.State), Item: r.Item, Quantity: r.Quantity, ExpiresAt: r.ExpiresAt, Order: r.ShopOrder}
	if r.ShopOrder != "" {
		shown.OrderURL = strings.ReplaceAll(g.cfg.Upstream.OrderPage, "{order}", url.PathEscape(r.ShopOrder))
	}
	return shown
}

// showReservation answers from the ledger in every state of the sale, to the
// user himself or to whoever shows the signed pass, expired or not. Another's
// reservation is not found, like one that never was.
func (g *Gateway) showReservation(x *exchange) Outcome {
	if !inventory.ValidOrderID(x.param) {
		return refuse(NotFound)
	}
	ctx, cancel := context.WithTimeout(context.Background(), reserveTimeout)
	defer cancel()
	r, err := g.deps.Stock.Find(ctx, x.param)
	switch {
	case errors.Is(err, inventory.ErrUnknownReservation), errors.Is(err, inventory.ErrUnknownSale):
		return refuse(NotFound)
	case err != nil:
		return Outcome{Kind: InventoryUnavailable, Fault: err}
	}
	if (x.caller.User == "" || r.User != x.caller.User) && !g.opens(x, r) {
		return refuse(NotFound)
	}
	return ownAnswer(g.answerReservation(r))
}

// opens says whether the request shows the pass of this reservation.
func (g *Gateway) opens(x *exchange, r inventory.Reservation) bool {
	v, _ := g.deps.Stock.View(r.Sale)
	x.view = v
	p, err := g.deps.Captcha.Verify(g.passToken(x, ""))
	return signed(err) && p.OrderID == r.ID
}

func (g *Gateway) showAsset(x *exchange) Outcome {
	body, err := fs.ReadFile(pages.Assets(), x.param)
	if err != nil {
		return refuse(NotFound)
	}
	return ownAnswer(func(x *exchange) {
		h := &x.c.Response().Header
		tag := pages.AssetETag(x.param)
		h.Set("ETag", tag)
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("X-Content-Type-Options", "nosniff")
		if string(x.c.Request().Header.Peek("If-None-Match")) == tag {
			x.c.Response().SetStatusCode(fiber.StatusNotModified)
			return
		}
		h.SetContentType(mime.TypeByExtension(path.Ext(x.param)))
		x.c.Response().SetBodyRaw(body)
	})
}

// see redirects a form to page, after a post (303).
func see(x *exchange, page string) {
	x.c.Response().Header.Set("Location", page)
	x.c.Response().Header.Set("Cache-Control", "no-store")
	x.c.Response().SetStatusCode(fiber.StatusSeeOther)
}

// captchaTimeout is the deadline of one call to the captcha's Redis.
const captchaTimeout = time.Second

// signInURL is where a visitor signs in and is sent back from.
func (g *Gateway) signInURL(sale string) string { return g.signInTo(g.salePage(sale)) }

func (g *Gateway) signInTo(page string) string {
	return strings.ReplaceAll(g.cfg.SignIn, "{page}", url.QueryEscape(page))
}
