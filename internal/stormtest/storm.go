// Package stormtest lets buyers storm a sale on a real cluster of three masters with a replica each, does it
// harm meanwhile, and counts what became of the units that buyers were told they have. A test and
// "make bench" share it.
package stormtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
	"weir/inventory"
)

// Harm is what is done to the cluster in the middle of the storm.
type Harm string

const (
	// Kill ends a master by SIGKILL; its replica takes over, and the dead one comes back as a replica.
	Kill Harm = "a master is killed"
	// KillBehind cuts a master's replication link first and kills it a moment later: what takes over
	// lacks that moment.
	KillBehind Harm = "a replication link is cut, then its master is killed"
	// KillBoth is KillBehind, and one of the two weirs dies with it: nobody remembers its wins.
	KillBoth Harm = "the same, and one weir is killed too"
	// Cut cuts a replication link for a second.
	Cut Harm = "a replication link is cut and heals"
	// Migrate moves the slot of a bucket to another master.
	Migrate Harm = "a slot is migrated"
)

// Plan is one round.
type Plan struct {
	Harm   Harm
	Wait   int   // replicas that confirm each change, 0 or 1
	Buyers int   // at the same time
	Units  int64 // on sale, one for each order
	// Quiet: the buyers go home the moment the master dies, so none of their orders meets what takes over.
	Quiet   bool
	Console *slog.Logger
}

const (
	saleID, item = "storm", "1001"
	// pace is how long a buyer waits between two orders: the storm must last longer than a failover.
	pace = 10 * time.Millisecond
	// calm is how long buyers storm before the harm.
	calm = 700 * time.Millisecond
	// behind is how long the replica that takes over has heard nothing.
	behind = 200 * time.Millisecond
	// stormLimit ends a storm that does not sell out after the harm.
	stormLimit = 20 * time.Second
	attemptFor = 2 * time.Second
)

// Run plays one round and counts. What cannot be done at all fails the test.
func Run(t testing.TB, p Plan) Counts {
	t.Helper()
	if p.Console == nil {
		p.Console = slog.New(slog.DiscardHandler)
	}
	s := &storm{t: t, plan: p, cluster: redistest.Cluster(t, 3, 1), told: newTold()}
	stop := s.openSale()
	defer stop()
	s.buyers = s.release()
	s.rest(calm)
	s.harm()
	if !p.Quiet {
		s.watch()
	}
	s.buyers.goHome()
	s.settle()
	return s.count()
}

// storm is one round.
type storm struct {
	t       testing.TB
	plan    Plan
	cluster *redistest.RedisCluster
	weirs   []*inventory.Store // the first one outlives the harm
	stops   []func()
	told    *told
	buyers  crowd
	gate    gate
	dead    atomic.Bool // the second weir
	hit     int         // the bucket that the harm is done to
	counts  Counts
}

// openSale starts two weirs beside each other and preheats; what it returns stops them.
func (s *storm) openSale() (stop func()) {
	s.t.Helper()
	for i := range 2 {
		client := s.cluster.Client(s.t, func(o *redis.ClusterOptions) { o.PoolSize = s.plan.Buyers })
		c := inventory.Config{Redis: client, Replica: fmt.Sprint("weir-", i), Log: s.plan.Console}
		if s.plan.Wait > 0 {
			c.Wait = inventory.Wait{Replicas: s.plan.Wait, Timeout: 300 * time.Millisecond}
		}
		w, err := inventory.New(c)
		s.must("making a store", err)
		s.weirs = append(s.weirs, w)
	}
	_, err := s.weirs[0].Preheat(s.t.Context(), inventory.Sale{
		ID: saleID, Version: 1, Item: item, EndAt: time.Now().Add(time.Hour), Total: s.plan.Units, BuyerLimit: 1, MaxQuantity: 1,
		Hold: 30 * time.Minute, Expiry: inventory.ExpiryAsk, Settle: inventory.SettleAccept,
	})
	s.must("preheating", err)
	for _, w := range s.weirs {
		s.must("reading the sale", w.Refresh(s.t.Context()))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { _ = w.Run(ctx); close(ended) }()
		s.stops = append(s.stops, func() { cancel(); <-ended })
	}
	return func() {
		for _, stop := range s.stops {
			stop()
		}
	}
}

func (s *storm) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("stormtest: %s: %v", what, err)
	}
}

// rest waits; buyers storm meanwhile.
func (s *storm) rest(d time.Duration) {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-s.t.Context().Done():
	}
}

// until asks every 10 ms; false when the limit is over.
func (s *storm) until(limit time.Duration, ask func() bool) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Name says what is done, and with how much durability.
func (p Plan) Name() string {
	name := string(p.Harm)
	if p.Quiet {
		name += ", and the buyers are gone"
	}
	if p.Wait > 0 {
		name += fmt.Sprintf(", WAIT %d", p.Wait)
	}
	return name
}
