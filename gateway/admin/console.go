package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/pprof"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/blacklist"
	"weir/inventory"
)

const (
	defaultBodyLimit = 64 << 10
	stopTimeout      = 5 * time.Second // what requests in flight get at the end
	concurrency      = 256             // connections at once

	// strangerEvery and strangerBurst bound the audit entries of people
	// without a valid token: at most about 8 700 a day.
	strangerEvery = 10 * time.Second
	strangerBurst = 20
)

// Console is the private listener's server. It keeps no state of its own but
// the tokens; everything else lies in the leaves and in Redis.
type Console struct {
	stock     *inventory.Store
	drafts    *inventory.Drafts
	bans      *blacklist.List
	planned   func() []inventory.Sale
	ready     func() []string
	bearers   []bearer
	program   string
	bodyLimit int
	audit     auditLog
	strangers *rate.Limiter
	now       func() time.Time
	log       *slog.Logger
	front     []byte // the page at /
	profile   fiber.Handler
	scrape    fiber.Handler
	app       *fiber.App

	checkPlan     func(inventory.Sale) []Fault
	reconcileWith func(context.Context, string, bool, []ReconcileOrder) (ReconcileReport, error) // nil = not here
	archiveWith   func(ctx context.Context, sale string) (Archived, error)
	limits        func(top int) []Limit
	reconciling   sync.Mutex // one at a time: it walks a whole sale
	ledgerBudget  time.Duration
}

// New checks the tokens and parts and reports every fault of them.
func New(config Config, d Deps) (*Console, error) {
	bearers, err := readTokens(config.Tokens)
	if err = errors.Join(err, checkDeps(d)); err != nil {
		return nil, fmt.Errorf("private listener: %w", err)
	}
	if config.BodyLimit < 0 {
		return nil, fmt.Errorf("private listener: body limit %d is negative", config.BodyLimit)
	}
	setDefaults(&d)
	drafts, err := inventory.NewDrafts(d.Stock)
	if err != nil {
		return nil, fmt.Errorf("private listener: %w", err)
	}
	c := &Console{
		stock:     d.Stock,
		drafts:    drafts,
		bans:      d.Bans,
		planned:   d.Planned,
		ready:     d.Ready,
		bearers:   bearers,
		program:   config.Version,
		bodyLimit: cmp.Or(config.BodyLimit, defaultBodyLimit),
		audit:     auditLog{redis: d.Redis, log: d.Log},
		strangers: rate.NewLimiter(rate.Every(strangerEvery), strangerBurst),
		now:       d.Now,
		log:       d.Log,
		profile:   pprof.New(),
		scrape:    scraper(d.Metrics),

		checkPlan:     d.CheckPlan,
		reconcileWith: d.Reconcile,
		archiveWith:   d.Archive,
		limits:        d.Limits,
		ledgerBudget:  ledgerBudget,
	}
	var front bytes.Buffer
	if err := frontPage(&front, routes()); err != nil {
		return nil, fmt.Errorf("private listener: %w", err)
	}
	c.front = front.Bytes()
	c.app = c.newApp()
	return c, nil
}

func checkDeps(d Deps) error {
	var faults []error
	for name, missing := range map[string]bool{
		"Stock": d.Stock == nil, "Bans": d.Bans == nil, "Redis": d.Redis == nil,
	} {
		if missing {
			faults = append(faults, fmt.Errorf("%s is missing", name))
		}
	}
	return errors.Join(faults...)
}

func setDefaults(d *Deps) {
	if d.Planned == nil {
		d.Planned = func() []inventory.Sale { return nil }
	}
	if d.Ready == nil {
		d.Ready = func() []string { return nil }
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.CheckPlan == nil {
		d.CheckPlan = func(inventory.Sale) []Fault { return nil }
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *Console) newApp() *fiber.App {
	app := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		StrictRouting:         true,
		CaseSensitive:         true,
		BodyLimit:             c.bodyLimit,
		Concurrency:           concurrency,
		ReadTimeout:           10 * time.Second,
		WriteTimeout:          30 * time.Second,
		IdleTimeout:           time.Minute,
		ReadBufferSize:        16 << 10,
		ErrorHandler:          c.failed,
		// Bodies are JSON or refused; nothing is to be unpacked before that.
		DisablePreParseMultipartForm: true,
	})
	app.Server().HeaderReceived = c.roomFor
	for _, r := range routes() {
		app.Add(r.method, r.path, c.handle(r))
		if r.method == fiber.MethodGet {
			app.Add(fiber.MethodHead, r.path, c.handle(r))
		}
	}
	return app
}

// Run serves ln until ctx ends, then lets the requests in flight finish, for
// at most five seconds, and returns nil. It closes ln. It may be called once.
func (c *Console) Run(ctx context.Context, ln net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- c.app.Listener(ln) }()
	select {
	case err := <-served:
		if err == nil {
			err = net.ErrClosed
		}
		return fmt.Errorf("private listener: %w", err)
	case <-ctx.Done():
	}
	if err := c.app.ShutdownWithTimeout(stopTimeout); err != nil {
		c.log.Warn("private listener stopped with requests in flight", "error", err)
	}
	ln.Close() // also when the server had not taken it over yet
	<-served
	return nil
}
