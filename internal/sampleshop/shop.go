// Package sampleshop is a small storefront: weir's upstream until a real shop
// takes its place, and the shop of all whole-program tests.
//
// It shows what a shop behind weir must do: verify the signature of a
// forwarded buy, create one order per Idempotency-Key, refuse to create one
// after Weir-Expires, answer by reservation id whether an order exists, list the
// orders of a sale, and set product stock aside for it.
// Orders lie in Redis, so the sample shops of two replicas are one shop.
package sampleshop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Item is something the shop shows.
type Item struct {
	ID    string
	Name  string
	Price string // as shown, e.g. "€ 49.00"
	Sale  string // id of weir's sale of it, "" when it is not on sale
	Text  string // a sentence below the name; may be empty
}

// Options of a Shop. Redis, SigningKey, KeyID and SessionKey are required.
type Options struct {
	Redis         redis.UniversalClient
	SigningKey    []byte // weir's "shop" key; verifies what weir forwards
	KeyID         string
	SessionKey    []byte // HS256 key of the visitor's cookie, shared with weir's identity
	Items         []Item
	Prefix        string           // of weir's own pages; "" means "/_weir"
	Now           func() time.Time // judges signatures and sessions; nil means time.Now
	Log           *slog.Logger     // nil means slog.Default
	AllowSwitches bool             // opens POST /_switches and /_switches/orders to everybody: for tests only
}

// Shop is one process of the storefront. Safe for concurrent use.
type Shop struct {
	opt   Options
	items map[string]Item
	log   *slog.Logger
	now   func() time.Time
	views views

	mu       sync.Mutex
	switches Switches
	seen     *seen
}

var itemID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// New checks the options and returns a Shop that does nothing yet.
func New(opt Options) (*Shop, error) {
	if opt.Redis == nil {
		return nil, errors.New("sample shop: Redis is required")
	}
	if len(opt.SigningKey) == 0 || len(opt.SessionKey) == 0 || opt.KeyID == "" {
		return nil, errors.New("sample shop: SigningKey, KeyID and SessionKey are required")
	}
	opt.Prefix = cmp.Or(opt.Prefix, "/_weir")
	items := make(map[string]Item, len(opt.Items))
	for _, it := range opt.Items {
		if !itemID.MatchString(it.ID) {
			return nil, fmt.Errorf("sample shop: item id %q is not valid", it.ID)
		}
		if _, twice := items[it.ID]; twice {
			return nil, fmt.Errorf("sample shop: item id %q given twice", it.ID)
		}
		items[it.ID] = it
	}
	s := &Shop{opt: opt, items: items, log: opt.Log, now: opt.Now, seen: newSeen()}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if s.views, err = parseViews(); err != nil {
		return nil, fmt.Errorf("sample shop: %w", err)
	}
	return s, nil
}

// Handler serves the storefront.
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.front)
	mux.HandleFunc("GET /items/{id}", s.item)
	mux.HandleFunc("GET /sign-in", s.signIn)
	mux.HandleFunc("GET /orders/{id}", s.order)
	mux.HandleFunc("GET /orders", s.questions)
	mux.HandleFunc("POST /buy/{item}", s.buy)
	s.quotaRoutes(mux)
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", s.assets()))
	if s.opt.AllowSwitches {
		mux.HandleFunc("POST /_switches", s.setSwitches)
		mux.HandleFunc("POST /_switches/orders", s.setOrder)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.notFound(w) })
	return secured(mux)
}

// Serve answers on ln until ctx ends, then lets running requests finish for at
// most 5 s. It owns ln and returns nil after an ordered stop.
func (s *Shop) Serve(ctx context.Context, ln net.Listener) error {
	// A running request is not cut off by the stop, it is only told of it.
	base := context.WithValue(context.WithoutCancel(ctx), stopping{}, ctx)
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("sample shop: serving: %w", err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(limit) != nil {
		_ = srv.Close() // whoever is still here has had his five seconds
	}
	<-failed
	return nil
}
