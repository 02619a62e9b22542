package archive

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"weir/inventory"
)

// Source is what the copier needs of the stock in Redis.
type Source interface {
	Views() []inventory.View
	Level(ctx context.Context, sale string) (inventory.Level, error)
	// Ledger calls fn for each reservation, at least once for each that is
	// there during the whole walk. fn may begin another walk.
	Ledger(ctx context.Context, sale string, fn func(inventory.Reservation) error) error
	// Cleanup shuts the sale, so that no late payment slips in behind the last
	// copy, copies what came since, records that the archive answers from now
	// on (View.Gone), and deletes. It may be repeated, also half done.
	Cleanup(ctx context.Context, sale string) error
}

// Leases share the work over replicas. Two that hold the same lease for a
// moment do the work twice, never wrong.
type Leases interface {
	// Lease says whether the job is this replica's for d. It is never given
	// back: who has it did the job of this interval.
	Lease(ctx context.Context, job string, d time.Duration) (bool, error)
}

// CopierConfig wires a Copier.
type CopierConfig struct {
	Source  Source
	Archive inventory.Archive
	Leases  Leases // nil: this replica is the only one
	Log     *slog.Logger
	// Interval is how often a sale that changed is copied; 0 means 1 minute.
	// What Redis loses within it is proved by nobody but the shop.
	Interval time.Duration
	// Horizon is how long after its end a sale stays in Redis for retries and
	// late payments; 0 means 24 hours.
	Horizon time.Duration
	// Now is the Redis time; nil means time.Now.
	Now func() time.Time
	// OnPass hears of every pass, failed or not; nil is fine. It counts them.
	OnPass func(Copied, error)
}

// Copied is what one pass over a sale's ledger did.
type Copied struct {
	Sale string
	Rows int64 // reservations walked and stored; one that HSCAN gave twice counts twice
	Open int64 // of them still reserved
	// Complete: nothing changed during the pass, nothing is reserved or on
	// loan, and the archive's sold units are the ledger's. Missing says what
	// is not so.
	Complete bool
	Missing  string
	Refused  []string        // reservations beyond the sale's total, at most 8 of them
	Level    inventory.Level // the reading before the pass
	Took     time.Duration
	// Deleted: the sale's keys in Redis are gone now, which only a complete copy
	// allows.
	Deleted bool
}

// Copier copies sales from Redis to an archive. It holds at most two slices of
// reservations in memory. Every pass starts from the beginning: what is stored
// already costs a read.
type Copier struct {
	config CopierConfig

	mu    sync.Mutex
	sales map[string]*progress // no more than there are views
}

const (
	defaultInterval = time.Minute
	defaultHorizon  = 24 * time.Hour
	// lookEvery is how often Run reads the views; it asks nobody.
	lookEvery = time.Second
	// jobs are the leases over which the sales are spread.
	jobs = 16
	// saveTimeout is for one slice.
	saveTimeout = 30 * time.Second
)

// NewCopier makes a Copier; Run or Copy set it to work.
func NewCopier(c CopierConfig) (*Copier, error) {
	if c.Source == nil || c.Archive == nil || c.Log == nil {
		return nil, errors.New("archive: CopierConfig needs Source, Archive and Log")
	}
	if c.Interval <= 0 {
		c.Interval = defaultInterval
	}
	if c.Horizon <= 0 {
		c.Horizon = defaultHorizon
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnPass == nil {
		c.OnPass = func(Copied, error) {}
	}
	return &Copier{config: c, sales: map[string]*progress{}}, nil
}

// Run copies until ctx ends, and returns nil then. The error of one sale is
// logged and stops no other; it is tried again after an interval.
func (c *Copier) Run(ctx context.Context) error {
	tick := time.NewTicker(min(lookEvery, c.config.Interval))
	defer tick.Stop()
	for {
		c.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round looks at every sale once.
func (c *Copier) round(ctx context.Context) {
	views := c.config.Source.Views()
	c.forget(views)
	for _, v := range views {
		if ctx.Err() != nil {
			return
		}
		c.look(ctx, v)
	}
}

// look copies the sale if it is time and no other replica does.
func (c *Copier) look(ctx context.Context, v inventory.View) {
	why := c.due(v)
	if why == notDue {
		return
	}
	if c.config.Leases != nil {
		mine, err := c.config.Leases.Lease(ctx, job(v.Sale.ID), c.config.Interval)
		if err != nil {
			c.config.Log.Warn("archive: no lease", "sale", v.Sale.ID, "error", err)
		}
		if err != nil || !mine {
			return
		}
	}
	done, err := c.act(ctx, v, why)
	if ctx.Err() != nil && err != nil {
		return // stopped, not failed
	}
	c.note(v, done, err)
	if !v.Gone {
		c.config.OnPass(done, err)
	}
	if err != nil {
		c.config.Log.Error("archive: sale not copied", "sale", v.Sale.ID, "why", why, "rows", done.Rows, "refused", done.Refused, "error", err)
	}
}

// act does what is due. A sale that is gone but may have left keys behind, when
// its cleanup broke, is cleaned up to the end once by each process.
func (c *Copier) act(ctx context.Context, v inventory.View, why reason) (Copied, error) {
	if v.Gone {
		err := c.config.Source.Cleanup(ctx, v.Sale.ID)
		return Copied{Sale: v.Sale.ID, Deleted: err == nil}, err
	}
	done, err := c.copy(ctx, v)
	if err == nil && why == forCleanup {
		err = c.cleanup(ctx, &done)
	}
	return done, err
}

// job is one of a few leases, so that their table does not grow with the sales.
func job(sale string) string {
	h := fnv.New32a()
	h.Write([]byte(sale))
	return fmt.Sprintf("archive %d", h.Sum32()%jobs)
}

// Copy copies one sale now, lease or not: all that its ledger holds. Errors:
// inventory.ErrUnknownSale, inventory.ErrOversold (everything but Refused is
// stored), and those of the ledger and the archive; Copied tells how far it
// came. Of a sale that is gone nothing is left to copy.
func (c *Copier) Copy(ctx context.Context, sale string) (Copied, error) {
	for _, v := range c.config.Source.Views() {
		if v.Sale.ID != sale {
			continue
		}
		if v.Gone {
			return Copied{Sale: sale, Complete: true, Deleted: true}, nil
		}
		done, err := c.copy(ctx, v)
		c.note(v, done, err)
		c.config.OnPass(done, err)
		return done, err
	}
	return Copied{Sale: sale}, unknownSale(sale)
}
