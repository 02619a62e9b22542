// Package gateway is the life of one public request: who asks, may he ask,
// does he own a unit, and what the shop said. Stages decide, in one order, in
// pipeline.go; one place writes, in write.go.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"weir/limiter"
)

// Gateway answers the public listener.
type Gateway struct {
	cfg  Config
	deps Deps

	stages   []stage
	routes   []route
	own      []ownRoute
	who      *identifier
	ownStack *limiter.Stack
	passes   *limiter.Stack
	tokens   *limiter.Stack
	pictures *limiter.Stack
	shared   *limiter.Stack
	shop     *shop
	judge    *judge
	seen     *metrics
	log      *accessLog
	plain    *plainBodies
	pool     sync.Pool
	ids      requestIDs
	draining atomic.Bool
}

// New builds a gateway. It returns every fault of cfg at once and opens
// nothing; Run serves.
func New(cfg Config, deps Deps) (*Gateway, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &Gateway{cfg: cfg, deps: deps, plain: newPlainBodies()}
	g.pool.New = func() any { return new(exchange) }
	var err error
	if g.routes, err = compileRoutes(cfg.Routes, cfg.Prefix); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if err := g.stacks(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.who, err = newIdentifier(cfg, deps.Now); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.shop = newShop(cfg.Upstream, cfg.Keys.Shop, deps.Now)
	g.seen = newMetrics(deps.Metrics, g)
	g.judge = newJudge(cfg.Judge, deps)
	g.log = newAccessLog(deps.Log, cfg.RefusalsPerSecond)
	g.own = g.ownRoutes()
	g.stages = g.order()
	return g, nil
}

// Run serves ln until ctx ends, then drains: it takes no new connection, lets
// running requests finish for at most Server.Drain, and stops its background
// work last. It returns nil after a clean stop.
func (g *Gateway) Run(ctx context.Context, ln net.Listener) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	for _, job := range []func(context.Context){g.judge.run, g.resolve} {
		background.Go(func() { job(work) })
	}
	for _, s := range g.limits() {
		defer s.Close()
	}
	defer background.Wait()
	defer stop()

	app := g.app()
	served := make(chan error, 1)
	go func() { served <- app.Listener(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("public listener: %w", err)
	case <-ctx.Done():
	}
	g.draining.Store(true)
	g.deps.Log.Info("draining the public listener", "at_most", g.cfg.Server.Drain.String())
	err := app.ShutdownWithTimeout(g.cfg.Server.Drain)
	if errors.Is(err, context.DeadlineExceeded) {
		g.deps.Log.Warn("stopped with requests still running", "after", g.cfg.Server.Drain)
		return nil
	}
	if err != nil {
		return fmt.Errorf("draining the public listener: %w", err)
	}
	ln.Close() // if the stop came before the server had begun, it must not begin now
	<-served
	return nil
}

// Draining says that the gateway takes no new work.
func (g *Gateway) Draining() bool { return g.draining.Load() }

// app is the listener's server. fiber's own router is not used: the route
// table matches one canonical path, which is also what is forwarded.
func (g *Gateway) app() *fiber.App {
	s := g.cfg.Server
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		ReadTimeout:                  s.ReadTimeout,
		WriteTimeout:                 s.WriteTimeout,
		IdleTimeout:                  s.IdleTimeout,
		ReadBufferSize:               s.HeaderLimit,
		BodyLimit:                    s.BodyLimit,
		Concurrency:                  s.MaxConnections,
		DisablePreParseMultipartForm: true,
		DisableDefaultContentType:    true,
		ErrorHandler:                 func(*fiber.Ctx, error) error { return fiber.ErrInternalServerError },
	})
	app.Use(g.serve)
	server := app.Server()
	inner := app.Handler()
	server.Handler = func(c *fasthttp.RequestCtx) {
		if kind := checkFraming(&c.Request); kind != goOn {
			g.refuseRaw(c, kind)
			return
		}
		inner(c)
	}
	server.ErrorHandler = func(c *fasthttp.RequestCtx, err error) { g.refuseRaw(c, kindOfReadError(err)) }
	server.MaxConnsPerIP = s.MaxPerAddress
	server.CloseOnShutdown = true
	server.SecureErrorLogMessage = true
	return app
}

// stacks builds the limiters. All stacks use the machine's monotonic clock: a
// limit is about durations, and Redis time may be stepped by a re-measurement.
func (g *Gateway) stacks() error {
	l := g.cfg.Limits
	var faults []error
	build := func(layers ...limiter.Layer) *limiter.Stack {
		s, err := limiter.NewShared(layers, time.Now, g.deps.Limits)
		faults = append(faults, err)
		return s
	}
	g.ownStack = build(named("user", l.User), named("device", l.Device), named("address", l.Address), named("network", l.Network))
	g.passes = build(named("pass", l.Pass))
	g.tokens = build(named("signature", l.Signature))
	g.pictures = build(named("challenge", l.Challenge))
	g.shared = build(named("item", l.Item), named("route", l.Route), named("upstream", l.Upstream), named("cluster", l.Cluster))
	return errors.Join(faults...)
}

// limits are all stacks.
func (g *Gateway) limits() []*limiter.Stack {
	return []*limiter.Stack{g.ownStack, g.passes, g.tokens, g.pictures, g.shared}
}

func named(name string, l limiter.Layer) limiter.Layer {
	l.Name = name
	if l.Rate == 0 && l.Concurrency == 0 {
		l.Off = true
	}
	return l
}
