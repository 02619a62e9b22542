package stormtest

import (
	"context"
	"time"

	"weir/inventory"
)

// Counts is what became of the units of one round.
type Counts struct {
	Told     int // wins that buyers were told, each one unit
	Unknown  int // orders whose outcome stayed unknown until they were asked about afterwards
	Oversold int64
	// Lost are wins that a buyer was told and that Redis had no longer, after weir had replayed what it
	// remembers and before an operator put them back.
	Lost     int
	Restored int // of those, put back by the operator from the shop's orders
	Pauses   int // how often weir paused the sale by itself
	Findings int // how often a weir reported lost stock
	// Undetected are lost wins of a sale that was neither paused nor found wanting by the audit.
	Undetected int
	Clean      bool // the audit at the end
	// Recovery is the longest time without a win in the bucket that was harmed.
	Recovery time.Duration

	harmed time.Time
}

// findLimit is how long weir may take, when the cluster is whole again, until a loss has paused the sale.
const findLimit = 3 * time.Second

// settle learns the outcome of every order, as its buyer would.
func (s *storm) settle() {
	s.t.Helper()
	s.cluster.WaitSettled(s.t)
	s.must("settling", s.calmDown())
	if len(s.missing()) > 0 { // weir may just be replaying; it is given time to find a loss
		s.until(findLimit, func() bool { return s.paused() || len(s.missing()) == 0 })
	}
	if s.paused() {
		s.operate()
	}
	open := s.told.open()
	s.counts.Unknown = len(open)
	for _, o := range open {
		s.must("asking again", s.try(func(ctx context.Context) error {
			r, err := s.weirs[0].Reserve(ctx, o)
			s.told.note(o, r, err)
			return err
		}))
	}
	if s.paused() { // found only now
		s.operate()
	}
}

// count holds what buyers were told against the books.
func (s *storm) count() Counts {
	s.t.Helper()
	c := &s.counts
	var audit inventory.Audit
	s.must("auditing", s.try(func(ctx context.Context) (err error) {
		audit, err = s.weirs[0].Audit(ctx, saleID)
		return err
	}))
	won := s.told.winners()
	lost := len(s.missing())
	c.Told, c.Clean = len(won), audit.OK
	c.Lost += lost
	c.Oversold = max(int64(len(won))-s.plan.Units, audit.Level.Reserved+audit.Level.Confirmed-s.plan.Units, 0)
	c.Findings = s.findings()
	if lost > 0 && !s.paused() && audit.OK {
		c.Undetected = lost
	}
	c.Recovery = s.told.longestGap(s.hit, c.harmed)
	for _, d := range audit.Differences {
		s.t.Logf("audit: %s", d)
	}
	return *c
}

// findings is how often a weir reported lost stock.
func (s *storm) findings() (n int) {
	for _, w := range s.weirs {
		n += int(w.Stats().Lost)
	}
	return n
}

// missing are the wins that buyers were told and that the ledger has no longer.
func (s *storm) missing() []inventory.Reservation {
	s.t.Helper()
	won := s.told.winners()
	s.must("walking the ledger", s.try(func(ctx context.Context) error {
		there := map[string]bool{}
		err := s.weirs[0].Ledger(ctx, saleID, func(r inventory.Reservation) error {
			if r.State == inventory.Reserved {
				there[r.ID] = true
			}
			return nil
		})
		if err == nil {
			for id := range there {
				delete(won, id)
			}
		}
		return err
	}))
	var all []inventory.Reservation
	for _, r := range won {
		all = append(all, r)
	}
	return all
}
