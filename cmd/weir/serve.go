package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"weir/blacklist"
	"weir/captcha"
	"weir/gateway"
	"weir/gateway/admin"
	"weir/internal/clock"
	"weir/internal/sampleshop"
	"weir/inventory"
	"weir/inventory/archive"
	"weir/limiter"
)

// serve runs the whole gateway until ctx ends.
func serve(ctx context.Context, c Config, secrets Secrets, out io.Writer, log *slog.Logger) error {
	redis.SetLogger(clientLog{log})
	p, err := start(ctx, c, secrets, log)
	if err != nil {
		return err
	}
	p.banner(out)
	return p.run(ctx)
}

// program is one replica: every part, wired, and the order in which they stop.
type program struct {
	cfg     Config
	log     *slog.Logger
	secrets Secrets

	public, private, shopListener net.Listener

	redis   *backing
	clock   *clock.Clock
	replica string // this process's name
	stock   *inventory.Store
	archive *archive.DB     // nil without one
	copier  *archive.Copier // nil without an archive
	bans    *blacklist.List
	captcha *captcha.Issuer
	shop    *sampleshop.Shop // nil with a shop of the operator's
	// serveShop is the sample shop, which answers from before the first preheat.
	serveShop *job
	gateway   *gateway.Gateway
	console   *admin.Console

	registry   *prometheus.Registry
	planned    []inventory.Sale
	master     []byte
	madeToken  string // the admin token made for a first look
	shopDomain string // where the sample shop listens
}

// start brings everything up to where requests can be answered, or returns one
// clear error and leaves nothing running. It listens first: a taken port is
// the commonest fault and must not cost a started Redis.
func start(ctx context.Context, c Config, secrets Secrets, log *slog.Logger) (*program, error) {
	p := &program{cfg: c, log: log, secrets: secrets, replica: replicaName(), registry: prometheus.NewRegistry()}
	for _, step := range []func(context.Context) error{
		p.listen, p.openRedis, p.makeSecrets, p.makeShop, p.makeLeaves, p.makeCopier, p.preheat, p.makeGateway, p.makeConsole,
	} {
		if err := step(ctx); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *program) listen(context.Context) (err error) {
	if p.public, err = net.Listen("tcp", p.cfg.Listen.Address); err != nil {
		return fmt.Errorf("listen.address (%s): %w", p.cfg.Listen.Address, bare(err))
	}
	if p.private, err = net.Listen("tcp", p.cfg.Admin.Address); err != nil {
		return fmt.Errorf("admin.address (%s): %w", p.cfg.Admin.Address, bare(err))
	}
	return nil
}

func (p *program) openRedis(ctx context.Context) (err error) {
	if p.redis, err = openRedis(ctx, p.cfg, p.secrets, p.log); err != nil {
		return err
	}
	p.clock = clock.New(p.redis.stock)
	ctx, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	if err := p.clock.Sync(ctx); err != nil {
		return fmt.Errorf("reading the clock of Redis: %w", err)
	}
	return nil
}

func (p *program) makeLeaves(ctx context.Context) (err error) {
	if err = p.makeStock(ctx); err != nil {
		return err
	}
	if p.captcha, err = captcha.New(p.captchaConfig()); err != nil {
		return err
	}
	p.bans, err = blacklist.New(blacklist.Config{
		Redis: p.redis.shared, Now: p.clock.Now, Log: p.log,
		Poll: p.cfg.Blacklist.Poll, MaxEntries: p.cfg.Blacklist.MaxEntries,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	if err := p.bans.Load(ctx); err != nil {
		return fmt.Errorf("reading the blacklist: %w", err)
	}
	if err := p.oneHost(ctx); err != nil {
		return err
	}
	return p.stock.Refresh(ctx)
}

// preheat writes the stock of the sales that the file plans. A sale that runs
// already, here or by another replica, is left as it is.
func (p *program) preheat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*redisWait)
	defer cancel()
	for _, s := range p.cfg.Sales {
		sale := p.plan(s)
		p.planned = append(p.planned, sale)
		if s.Preheat != "at_start" {
			continue
		}
		if state, err := sale.StateAt(p.clock.Now()); err == nil && state == inventory.SaleEnded {
			continue // left in the file after its end: no reason not to start
		}
		_, err := p.stock.Preheat(ctx, sale)
		switch {
		case errors.Is(err, inventory.ErrStockLost):
			p.log.Error("STOCK LOST: compare the shop's orders, then sell what is left under a new id; "+
				"only if nothing was sold, take the sale out of marks.json in the data folder", "sale", s.ID, "err", err)
		case errors.Is(err, inventory.ErrSaleStarted), errors.Is(err, inventory.ErrVersionReused):
			p.log.Warn("a sale of the file was not preheated; the stored one goes on", "sale", s.ID, "version", s.Version, "why", err.Error())
		case err != nil:
			return fmt.Errorf("preheating the sale %s: %w", s.ID, err)
		}
	}
	return p.stock.Refresh(ctx)
}

func (p *program) makeGateway(context.Context) (err error) {
	cfg, err := p.gatewayConfig()
	if err != nil {
		return err
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.gateway, err = gateway.New(cfg, gateway.Deps{
		Stock: p.stock, Captcha: p.captcha, Bans: p.bans,
		Limits: &limiter.Cluster{Redis: p.redis.shared, Log: p.log, Replicas: func() int { return int(p.stock.Stats().Replicas) }},
		Now:    p.clock.Now, Log: p.log, Metrics: p.registry,
	})
	return err
}

func (p *program) makeConsole(context.Context) (err error) {
	tokens := make([]admin.Token, 0, len(p.secrets.AdminTokens)+1)
	for _, t := range p.secrets.AdminTokens {
		tokens = append(tokens, admin.Token{Name: t.Name, Role: t.Role, Secret: string(t.Token.Reveal())})
	}
	if p.madeToken != "" {
		tokens = append(tokens, admin.Token{Name: "first-look", Role: admin.Operator, Secret: p.madeToken})
	}
	var archiveNow func(context.Context, string) (admin.Archived, error)
	if p.copier != nil {
		archiveNow = p.archiveNow
	}
	p.console, err = admin.New(admin.Config{Tokens: tokens, Version: version()}, admin.Deps{
		Stock: p.stock, Bans: p.bans, Redis: p.redis.shared,
		Planned:   func() []inventory.Sale { return p.planned },
		Reconcile: p.reconcile, Archive: archiveNow, CheckPlan: p.checkPlan, Limits: p.limits,
		Ready: p.notReady, Metrics: p.registry, Now: p.clock.Now, Log: p.log,
	})
	return err
}

// plan is the sale of the file. An end that the file counts from the start was
// settled by the first preheat: at a restart it is the stored one.
func (p *program) plan(s SaleConfig) inventory.Sale {
	sale := s.Plan(p.clock.Now())
	v, known := p.stock.View(s.ID)
	if !known || v.Sale.Version != s.Version {
		return sale
	}
	if s.EndsAt.After > 0 {
		sale.EndAt = v.Sale.EndAt
	}
	return sale
}

// readyTimeout bounds the questions behind /readyz.
const readyTimeout = 500 * time.Millisecond

// notReady says why this replica should get no traffic.
func (p *program) notReady() []string {
	var reasons []string
	if p.gateway.Draining() {
		reasons = append(reasons, "draining")
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := p.redis.stock.Ping(ctx).Err(); err != nil {
		reasons = append(reasons, "redis.stock does not answer")
	}
	if p.redis.shared != p.redis.stock && p.redis.shared.Ping(ctx).Err() != nil {
		reasons = append(reasons, "redis.shared does not answer")
	}
	return reasons
}

// run serves until ctx ends or a part fails, then stops senders before
// receivers: the public listener drains first, while the private one still
// tells that we are not ready; then the shop, the background work, Redis.
func (p *program) run(ctx context.Context) error {
	defer p.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go p.watchRedis(ctx, cancel)

	var stopped stopOrder
	stopped.add(
		func(c context.Context) error { return p.clock.Run(c) },
		func(c context.Context) error { return p.stock.Run(c) },
		func(c context.Context) error { return p.bans.Run(c) },
	)
	if p.copier != nil {
		stopped.add(func(c context.Context) error { return p.copier.Run(c) })
	}
	if p.serveShop != nil {
		stopped.add(p.serveShop.run)
	}
	stopped.add(func(c context.Context) error { return p.console.Run(c, p.private) })
	stopped.add(func(c context.Context) error { return p.gateway.Run(c, p.public) })

	err := stopped.run(ctx, cancel)
	p.log.Info("stopped")
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// watchRedis ends the program when its embedded Redis is gone for good.
func (p *program) watchRedis(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case err, ok := <-p.redis.failed():
		if ok && err != nil {
			cancel(fmt.Errorf("the embedded Redis: %w", err))
		}
	}
}

// close gives back what start took. Listeners that a server has closed are
// closed again without harm.
func (p *program) close() {
	for _, l := range []net.Listener{p.public, p.private} {
		if l != nil {
			l.Close()
		}
	}
	if p.serveShop != nil { // owns its listener
		if err := p.serveShop.end(); err != nil {
			p.log.Warn("closing the sample shop", "err", err)
		}
	}
	if p.archive != nil {
		if err := p.archive.Close(); err != nil {
			p.log.Warn("closing the archive", "err", err)
		}
	}
	if p.redis == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.redis.close(ctx); err != nil {
		p.log.Warn("closing Redis", "err", err)
	}
}

// stopOrder runs groups of jobs and stops them one group after the other, the
// last added first.
type stopOrder struct {
	groups [][]func(context.Context) error
}

func (s *stopOrder) add(jobs ...func(context.Context) error) int {
	s.groups = append(s.groups, jobs)
	return len(s.groups) - 1
}

// run returns after all jobs have ended. A job that ends by itself, or with an
// error, ends all.
func (s *stopOrder) run(ctx context.Context, fail context.CancelCauseFunc) error {
	var mu sync.Mutex
	var faults []error
	stops := make([]func(), len(s.groups))
	for i, jobs := range s.groups {
		group, stop := context.WithCancel(context.WithoutCancel(ctx))
		var all sync.WaitGroup
		for _, job := range jobs {
			all.Go(func() {
				err := job(group)
				if group.Err() == nil {
					fail(errors.Join(errors.New("a part ended by itself"), err))
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					mu.Lock()
					defer mu.Unlock()
					faults = append(faults, err)
				}
			})
		}
		stops[i] = func() { stop(); all.Wait() }
	}
	<-ctx.Done()
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
	return errors.Join(faults...)
}
