package archive

import (
	"slices"
	"time"

	"weir/inventory"
)

// reason is why a sale is copied now.
type reason string

const (
	notDue     reason = ""
	forPeriod  reason = "period"   // it changed, and an interval has passed
	forSoldOut reason = "sold-out" // at once
	forEnd     reason = "end"      // at once: it ended or was cancelled
	forCleanup reason = "cleanup"  // the horizon has passed
)

// maxDoublings of the interval between tries to delete a sale: 64 times.
const maxDoublings = 6

// progress is what this replica knows of one sale's copies.
type progress struct {
	since    time.Time // first seen
	tried    time.Time // last looked at with a reason
	success  time.Time // last pass without error
	seq      int64     // of the ledger, before that pass; -1 = none yet
	rows     int64
	soldOut  bool // the pass for it was tried, and no unit came back since
	ended    bool
	deleted  bool
	complete bool
	failures int64
	streak   int // failures since the last success
	err      error
}

// due decides, and notes that it did: each reason is tried once an interval.
func (c *Copier) due(v inventory.View) reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, p := c.config.Now(), c.progress(v.Sale.ID)
	if v.Level.Free > 0 {
		p.soldOut = false
	}
	state := v.StateAt(now)
	over := state == inventory.SaleEnded || state == inventory.SaleCancelled
	why, waited := notDue, now.Sub(p.tried) >= c.config.Interval
	// A sale that cannot be proved waits for people, and each try walks it whole.
	patient := now.Sub(p.tried) >= c.config.Interval<<min(p.streak, maxDoublings)
	switch {
	case v.Gone:
		if patient && !p.deleted {
			why = forCleanup
		}
	case over && !p.ended:
		why, p.ended = forEnd, true
	case patient && !now.Before(v.Sale.EndAt.Add(c.config.Horizon)):
		why = forCleanup
	case v.SoldOut && !p.soldOut:
		why, p.soldOut = forSoldOut, true
	case waited && now.Before(v.Sale.EndAt.Add(c.config.Horizon)) && (p.err != nil || p.seq != v.Level.Seq):
		why = forPeriod
	}
	if why != notDue {
		p.tried = now
	}
	return why
}

func (c *Copier) progress(sale string) *progress {
	p := c.sales[sale]
	if p == nil {
		p = &progress{since: c.config.Now(), seq: -1}
		c.sales[sale] = p
	}
	return p
}

// note remembers how a pass ended.
func (c *Copier) note(v inventory.View, done Copied, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.progress(v.Sale.ID)
	p.err, p.complete, p.deleted = err, done.Complete, done.Deleted
	if err != nil {
		p.failures++
		p.streak++
		return
	}
	p.streak = 0
	p.success, p.seq, p.rows = c.config.Now(), done.Level.Seq, done.Rows
}

// forget drops the sales that are no longer there.
func (c *Copier) forget(views []inventory.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sale := range c.sales {
		if !slices.ContainsFunc(views, func(v inventory.View) bool { return v.Sale.ID == sale }) {
			delete(c.sales, sale)
		}
	}
}

// SaleStatus is how a sale's copies stand, as this replica saw them; where
// several share the work, the one with the newest LastSuccess is right.
type SaleStatus struct {
	Sale        string
	Rows        int64         // of the last pass without error
	LastSuccess time.Time     // zero: none yet
	Lag         time.Duration // since when the ledger may hold what the archive lacks; 0 = nothing changed
	Complete    bool          // see Copied
	Failures    int64
	Err         error // of the last pass, nil when it was good
}

// Status lists all sales that are still in Redis, in the order of their views.
func (c *Copier) Status() []SaleStatus {
	views := c.config.Source.Views()
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]SaleStatus, 0, len(views))
	for _, v := range views {
		if v.Gone {
			continue
		}
		p := c.progress(v.Sale.ID)
		s := SaleStatus{Sale: v.Sale.ID, Rows: p.rows, LastSuccess: p.success, Complete: p.complete, Failures: p.failures, Err: p.err}
		if p.seq != v.Level.Seq || p.err != nil {
			from := p.since
			if !p.success.IsZero() {
				from = p.success
			}
			s.Lag = c.config.Now().Sub(from)
		}
		list = append(list, s)
	}
	return list
}
