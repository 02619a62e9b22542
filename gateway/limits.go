package gateway

import (
	"context"
	"time"

	"weir/limiter"
)

// leaseTimeout is how long a request waits for Redis to say what of a shared
// rate is left, when this replica does not know.
const leaseTimeout = 250 * time.Millisecond

// take asks the stack, and Redis where this replica does not know.
func take(s *limiter.Stack, keys limiter.Keys) limiter.Decision {
	d, known := s.TakeAtOnce(keys)
	if known {
		return d
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	return s.TakeWithin(ctx, keys)
}

// ownLimits is hop 6: what this caller alone has spent. The layers are checked
// together and spent together, so one bot in an office does not drain the
// office's budget. The user and device layers count orders; pages and their
// pictures come in bursts and count against the address and its network only.
func (g *Gateway) ownLimits(x *exchange) Outcome {
	user, device := "", ""
	if x.buying() {
		user, device = x.caller.User, x.caller.Device
	}
	d := take(g.ownStack, limiter.Keys{user, device, addrKey(&x.scratch[0], x.caller.Addr), networkKey(&x.scratch[1], x.caller.Addr)})
	if d.OK {
		return Outcome{}
	}
	// An address may be an office: its limit is nobody's offence.
	kind := RateLimited
	if d.Layer == "address" || d.Layer == "network" {
		kind = SharedLimited
	}
	return Outcome{Kind: kind, RetryAfter: d.RetryAfter}
}

// sharedLimits is hop 8: what all callers share. Only a request with a valid
// pass and a readable order gets here, so a flood without passes leaves these
// budgets to people. The concurrency slots are held until the answer is written.
func (g *Gateway) sharedLimits(x *exchange) Outcome {
	item, upstream := "", ""
	if x.buying() {
		item, upstream = x.view.Sale.Item, "upstream"
	}
	d := take(g.shared, limiter.Keys{item, x.route.cfg.Name, upstream, "cluster"})
	if d.OK {
		x.lease = d
		return Outcome{}
	}
	kind := Overloaded
	if d.Layer == "item" || d.Layer == "route" {
		kind = SharedLimited
	}
	return g.keepPass(x, Outcome{Kind: kind, RetryAfter: d.RetryAfter})
}
