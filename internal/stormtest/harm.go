package stormtest

import (
	"context"
	"slices"
	"time"

	"weir/internal/redistest"
	"weir/inventory"
)

// harm does what the plan says to the master of the first bucket and returns when that is done.
func (s *storm) harm() {
	s.t.Helper()
	view, ok := s.weirs[0].View(saleID)
	if !ok || len(view.Level.Buckets) != 3 {
		s.t.Fatalf("stormtest: the sale does not lie in three buckets: %+v", view.Level)
	}
	master, slot := s.cluster.MasterOfKey("{" + view.Level.Buckets[s.hit].Tag + "}")
	if master == nil {
		s.t.Fatal("stormtest: nobody serves the first bucket")
	}
	s.counts.harmed = time.Now()
	switch s.plan.Harm {
	case Kill:
		s.kill(master)
	case KillBehind, KillBoth:
		heal := redistest.CutReplication(s.t, s.replicaOf(master))
		s.rest(behind)
		if s.plan.Harm == KillBoth {
			s.killWeir()
		}
		s.kill(master)
		heal()
	case Cut:
		heal := redistest.CutReplication(s.t, s.replicaOf(master))
		s.rest(time.Second)
		heal()
	case Migrate:
		to := s.cluster.Masters()
		to = slices.DeleteFunc(to, func(n *redistest.Node) bool { return n == master })
		s.cluster.MigrateSlot(s.t, slot, master, to[0], nil)
	default:
		s.t.Fatalf("stormtest: unknown harm %q", s.plan.Harm)
	}
}

// kill ends a master. When its replica has taken over, it comes back, as one that a supervisor starts again.
func (s *storm) kill(master *redistest.Node) {
	s.t.Helper()
	replica := s.replicaOf(master)
	master.Kill()
	if s.plan.Quiet {
		s.buyers.goHome()
	}
	if !s.until(20*time.Second, func() bool { return slices.Contains(s.cluster.Masters(), replica) }) {
		s.t.Fatal("stormtest: no replica took over within 20 s")
	}
	master.Start()
}

// killWeir: the second weir is gone, with all it remembers. Its buyers get no further answers from it.
func (s *storm) killWeir() {
	s.dead.Store(true)
	s.stops[1]()
}

// replicaOf is the node that follows this master.
func (s *storm) replicaOf(master *redistest.Node) *redistest.Node {
	s.t.Helper()
	nodes := s.cluster.Nodes()
	i := slices.Index(nodes, master)
	if i < 0 || len(nodes) != 6 {
		s.t.Fatal("stormtest: not a cluster of 3 + 3")
	}
	return nodes[(i+3)%6] // the kit deals the nodes to the masters in turn
}

// watch waits until all units are won, and a little longer: now is when more could be sold than there are.
// Whenever weir has paused the sale, the operator works.
func (s *storm) watch() {
	s.t.Helper()
	s.until(stormLimit, func() bool {
		if s.paused() {
			s.operate()
		}
		return s.told.units() >= s.plan.Units
	})
	s.rest(calm)
}

func (s *storm) paused() bool {
	v, ok := s.weirs[0].View(saleID)
	return ok && v.Desired == inventory.DesiredPaused
}

// operate is what "weir sale reconcile --apply" and "resume" do: the shop's orders are every win that a
// buyer was told. What was missing before is what Redis lost for good.
func (s *storm) operate() {
	s.t.Helper()
	s.gate.mu.Lock() // all who asked have their answers
	defer s.gate.mu.Unlock()
	w := s.weirs[0]
	s.must("settling after a pause", s.calmDown())
	s.counts.Pauses++
	// Weirs replay beside each other, after the pause; no operator looks sooner.
	s.until(time.Second, func() bool { return len(s.missing()) == 0 })
	missing := s.missing()
	s.counts.Lost += len(missing)
	for _, r := range missing {
		if s.try(func(ctx context.Context) error { _, err := w.Restore(ctx, r); return err }) == nil {
			s.counts.Restored++
		}
	}
	s.must("resuming", s.try(func(ctx context.Context) error {
		_, err := w.SetDesired(ctx, saleID, inventory.DesiredOn)
		return err
	}))
}

// try does something until it works, for a while.
func (s *storm) try(do func(context.Context) error) error {
	var err error
	s.until(20*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		err = do(ctx)
		return err == nil
	})
	return err
}

// calmDown has every living weir read the sale until all buckets answer; each replays what it remembers
// meanwhile.
func (s *storm) calmDown() error {
	living := s.weirs
	if s.dead.Load() {
		living = s.weirs[:1]
	}
	for range 2 { // a reading may be shared with one that still mends; the second begins after it
		for _, w := range living {
			if err := s.try(w.Refresh); err != nil {
				return err
			}
		}
	}
	return s.try(func(ctx context.Context) error { _, err := s.weirs[0].Level(ctx, saleID); return err })
}
