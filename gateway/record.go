package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// requestIDs are 8 random bytes of the process and a counter: unique without
// asking the kernel for each request. They are no secret.
type requestIDs struct {
	n      atomic.Uint64
	prefix atomic.Pointer[[8]byte]
}

func (r *requestIDs) next() string {
	p := r.prefix.Load()
	if p == nil {
		fresh := new([8]byte)
		rand.Read(fresh[:]) // never fails, by its documentation
		r.prefix.CompareAndSwap(nil, fresh)
		p = r.prefix.Load()
	}
	var raw [12]byte
	copy(raw[:], p[:6])
	n := r.n.Add(1)
	for i := range 6 {
		raw[6+i] = byte(n >> (8 * (5 - i)))
	}
	var text [24]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// accessLog writes one JSON line per forwarded request and a bounded sample
// of the refused ones.
type accessLog struct {
	log      *slog.Logger
	refusals *rate.Limiter
	faults   *rate.Limiter // of requests that failed by a fault: a dead shop must not fill the disk
	dropped  atomic.Uint64
}

const faultsPerSecond = 20

func newAccessLog(log *slog.Logger, perSecond int) *accessLog {
	return &accessLog{
		log:      log,
		refusals: rate.NewLimiter(rate.Limit(perSecond), perSecond),
		faults:   rate.NewLimiter(faultsPerSecond, faultsPerSecond),
	}
}

// record is hop 1: the counters, the log line and the judge's offence, after
// the answer is written.
func (g *Gateway) record(x *exchange, out Outcome) {
	took := time.Since(x.started)
	g.seen.count(x, out.Kind, took)
	if table[out.Kind].offence && !crossSite(x) {
		g.judge.tell(x.caller, out.Kind)
	}
	refused := out.Kind != Forwarded && out.Kind != FromLedger && out.Kind != Own
	if out.Fault != nil && !g.log.faults.Allow() || refused && out.Fault == nil && !g.log.refusals.Allow() {
		g.log.dropped.Add(1)
		return
	}
	level := slog.LevelInfo
	if out.Fault != nil {
		level = slog.LevelWarn
	}
	if !g.log.log.Enabled(context.Background(), level) {
		return
	}
	g.log.log.LogAttrs(context.Background(), level, "request", g.attrs(x, out, took)...)
}

func (g *Gateway) attrs(x *exchange, out Outcome, took time.Duration) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("request_id", x.id),
		slog.String("outcome", out.Kind.label()),
		slog.Int("status", x.status),
		slog.String("method", string(x.c.Request().Header.Method())),
		slog.String("path", x.path),
		slog.String("route", x.routeName()),
		slog.String("addr", x.caller.Addr.String()),
		slog.Float64("ms", float64(took.Microseconds())/1000),
	}
	if x.caller.User != "" {
		attrs = append(attrs, slog.String("user", x.caller.User))
	}
	if x.order.ID != "" {
		attrs = append(attrs, slog.String("reservation", x.order.ID), slog.Int("attempt", x.result.Reservation.Attempt))
	}
	if out.Fault != nil {
		attrs = append(attrs, slog.String("fault", out.Fault.Error()))
	}
	if n := g.log.dropped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Uint64("refusals_not_logged", n))
	}
	return attrs
}

func (x *exchange) routeName() string {
	switch {
	case x.route != nil:
		return x.route.cfg.Name
	case x.page != nil:
		return x.page.name
	}
	return "none"
}
