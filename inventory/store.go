package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/tasks"
)

// Config wires a Store.
type Config struct {
	// Redis must be made with MaxRetries -1 and ContextTimeoutEnabled: a client
	// that repeats commands or ignores deadlines hides unknown outcomes.
	Redis redis.UniversalClient
	// Memory: the server is miniredis. It has no INFO and no restart to fence.
	Memory bool
	// Replica is this process's name, different from that of every other one.
	Replica string
	Log     *slog.Logger
	// Refresh is how often Run reads the views; 0 means 250 ms.
	Refresh time.Duration
	// Share bounds what this replica asks Redis for; nil = no bound.
	Share *Share
	// Wait asks Redis replicas to confirm each change; the zero value does not.
	Wait Wait
	// Batch is the most orders of one flight; 0 means 128, 1 is one script an order.
	Batch int
	// Archive answers for sales whose keys are deleted; nil = none are.
	Archive Archive
	// Marks keeps, outside of Redis, how far each bucket was; nil = nowhere.
	Marks Marks
	// Quota freezes the shop's product stock for a sale; nil = nothing is frozen.
	Quota Quota
}

// Wait is durability by replication: a change counts as done when Replicas
// servers have it. Not confirmed within Timeout it is ErrOutcomeUnknown, never
// a win. The client's ReadTimeout must be Timeout + 100 ms or more.
type Wait struct {
	Replicas int
	Timeout  time.Duration
}

// Store is the stock of all sales as one replica sees it. All its methods may
// be called at once; those that take a context ask Redis, the others do not.
type Store struct {
	redis   redis.UniversalClient
	memory  bool
	replica string
	log     *slog.Logger
	every   time.Duration
	scripts *scripts
	share   *Share
	wait    Wait
	batch   int
	archive Archive
	marks   *markKeeper
	quota   *quotas

	pastSales *lru.Cache[string, *entry] // of which only the archive is left

	views      atomic.Pointer[snapshot]
	refreshing chan struct{} // holds one token while a refresh runs
	started    atomic.Int64  // number of refreshes begun
	finished   int64         // number of the last one that succeeded; owned by the token
	alarmed    atomic.Int64  // when an alarm was last logged, Unix ns
	seen       counters

	tidyAt atomic.Int64 // when dead preheats are looked for next, ns of the store's clock

	born   time.Time
	coarse atomic.Int64 // ns since born, while Run keeps it up
	// background counts flights and gatherers on their way; each has a deadline.
	background tasks.Group
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
	marks, err := newMarkKeeper(c.Marks)
	if err != nil {
		return nil, err
	}
	quota, err := newQuotas(c.Quota)
	if err != nil {
		return nil, err
	}
	if c.Refresh <= 0 {
		c.Refresh = 250 * time.Millisecond
	}
	if c.Batch <= 0 || c.Batch > maxBatch {
		c.Batch = maxBatch
	}
	past, err := lru.New[string, *entry](pastKnown)
	if err != nil {
		return nil, err
	}
	s := &Store{
		pastSales: past,
		redis:     c.Redis, memory: c.Memory, replica: c.Replica, log: c.Log.With("replica", c.Replica), every: c.Refresh,
		scripts: sc, share: c.Share, wait: c.Wait, batch: c.Batch, archive: c.Archive, marks: marks, quota: quota,
		refreshing: make(chan struct{}, 1), born: time.Now(),
	}
	s.views.Store(&snapshot{
		bySale: map[string]*entry{}, byItem: map[string][]*entry{}, at: -int64(time.Hour), replaced: make(chan struct{}),
	})
	return s, nil
}

// coarseTick is how far the clock of the hot path may lag behind.
const coarseTick = 5 * time.Millisecond

// nano is the store's monotonic clock: ns since it was made.
func (s *Store) nano() int64 {
	if n := s.coarse.Load(); n != 0 {
		return n
	}
	return int64(time.Since(s.born))
}

// keepTime makes nano cheap until ctx ends: reading the clock costs more than
// all else of a sold-out answer.
func (s *Store) keepTime(ctx context.Context) {
	tick := time.NewTicker(coarseTick)
	defer tick.Stop()
	defer s.coarse.Store(0)
	for {
		s.coarse.Store(int64(time.Since(s.born)))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Run refreshes the views until ctx ends, and returns nil then. While Redis is
// away it keeps the last views.
func (s *Store) Run(ctx context.Context) error {
	defer s.background.Wait()
	s.background.Go(func() { s.keepTime(ctx) })
	s.background.Go(func() { s.keepQuotas(ctx) })
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
