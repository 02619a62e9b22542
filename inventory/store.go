package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config wires a Store.
type Config struct {
	// Redis must be made with MaxRetries -1 and ContextTimeoutEnabled: a client
	// that repeats commands or ignores deadlines hides unknown outcomes.
	Redis redis.UniversalClient
	// Memory: the server is miniredis. It has no INFO and no restart to fence.
	Memory bool
	// Replica is this process's name in the logs.
	Replica string
	Log     *slog.Logger
	// Refresh is how often Run reads the views; 0 means 250 ms.
	Refresh time.Duration
}

// Store is the stock of all sales as one replica sees it. All its methods may
// be called at once; those that take a context ask Redis, the others do not.
type Store struct {
	redis   redis.UniversalClient
	memory  bool
	log     *slog.Logger
	every   time.Duration
	scripts *scripts

	views      atomic.Pointer[snapshot]
	refreshing chan struct{} // holds one token while a refresh runs
	started    atomic.Int64  // number of refreshes begun
	finished   int64         // number of the last one that succeeded; owned by the token
	alarmed    atomic.Int64  // when an alarm was last logged, Unix ns
}

// New makes a Store without asking Redis; Refresh or Run fill its views.
func New(c Config) (*Store, error) {
	if c.Redis == nil || c.Log == nil {
		return nil, errors.New("inventory: Config needs Redis and Log")
	}
	sc, err := loadScripts()
	if err != nil {
		return nil, err
	}
	if c.Refresh <= 0 {
		c.Refresh = 250 * time.Millisecond
	}
	s := &Store{
		redis: c.Redis, memory: c.Memory, log: c.Log.With("replica", c.Replica), every: c.Refresh, scripts: sc,
		refreshing: make(chan struct{}, 1),
	}
	s.views.Store(&snapshot{bySale: map[string]*entry{}, byItem: map[string][]*entry{}})
	return s, nil
}

// Run refreshes the views until ctx ends, and returns nil then. While Redis is
// away it keeps the last views.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	failing := false
	for {
		err := s.Refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if (err != nil) != failing { // once when it begins, once when it is over
			failing = err != nil
			s.log.Warn("stock views", "stale", failing, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// noStock must never be told as "sold out": nothing was ever written there, or it is lost.
const noStock = "no stock where the sale's record says there is some"

// alarm logs what must never happen, at most once a second.
func (s *Store) alarm(e *entry, text string) {
	now := time.Now().UnixNano()
	last := s.alarmed.Load()
	if now-last < int64(time.Second) || !s.alarmed.CompareAndSwap(last, now) {
		return
	}
	s.log.Error(text, "sale", e.view.Sale.ID, "generation", e.view.Generation)
}

// errNoBucket: the record names a generation whose keys are not there.
func errNoBucket(sale string) error {
	return fmt.Errorf("%s: its stock is not where its record says: %w", sale, ErrUnknownSale)
}
