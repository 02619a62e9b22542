package gateway

import (
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/captcha"
	"weir/inventory"
	"weir/limiter"
)

// stage looks at a request and either lets it go on (the zero Outcome) or
// ends it. Only the write at the end touches the response.
type stage func(*exchange) Outcome

// order is the life of a request, hop by hop, as docs/architecture.md draws
// it. Everything above reserve is memory only.
func (g *Gateway) order() []stage {
	return []stage{
		g.address,      // 2  who connects, and may this address speak at all
		g.identity,     //    who he says he is
		g.blacklist,    // 3
		g.route,        // 4
		g.sale,         // 5
		g.ownLimits,    // 6
		g.ownPage,      //    weir's own paths end here
		g.passAndOrder, // 7
		g.sharedLimits, // 8  nothing is spent here by who cannot order
		g.reserve,      // 9  the first network call
		g.forward,      // 10 and 11, settle
	}
}

// exchange is one request on its way through the stages. It is pooled; what
// must outlive the handler is copied out of it.
type exchange struct {
	c       *fiber.Ctx
	started time.Time
	id      string // request id

	path   string // canonical
	caller Caller
	route  *route
	page   *ownRoute
	param  string // the item of a buy route, the id of an own one

	view   inventory.View
	pass   captcha.Pass
	token  string // of a pass made in this very request
	body   []byte // what of an order's body is the shop's
	order  inventory.Order
	result inventory.Result
	lease  limiter.Decision
	status int

	scratch [2][16]byte // limiter keys of the address, without allocation
}

// serve runs the stages in order and writes what they decided. Hop 1, the
// record, is the deferred part.
func (g *Gateway) serve(c *fiber.Ctx) error {
	x := g.pool.Get().(*exchange)
	x.c, x.started, x.id = c, time.Now(), g.ids.next()
	out := g.decide(x)
	g.write(x, out)
	x.lease.Done()
	g.record(x, out)
	*x = exchange{}
	g.pool.Put(x)
	return nil
}

// decide walks the stages. A panic in one is this request's fault alone.
func (g *Gateway) decide(x *exchange) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			g.deps.Log.Error("a stage panicked", "panic", p, "request_id", x.id, "stack", string(debug.Stack()))
			out = refuse(Internal)
		}
	}()
	for _, next := range g.stages {
		if out := next(x); out.Kind != goOn {
			return out
		}
	}
	return refuse(Internal)
}
