package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/redistest"
)

// H-9: a key with a TTL dies by whatever clock the server has that holds it. No
// key has one; deadlines are data, and outlive a failover to the millisecond.
func TestStock_H09_NoKeyHasATTL(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := preheatedTwice(t, v.store)
		oneOfEach(t, v, sale)
		drafts, err := NewDrafts(v.store)
		must(t, err)
		next := planned()
		next.ID, next.Item = "next", "next"
		_, err1 := drafts.Create(ctx, next)
		_, err2 := v.store.Lease(ctx, "a job", time.Minute)
		must(t, errors.Join(err1, err2))
		want := []string{salesKey(), tagsKey(), leaseKey(), leasesKey(), replicasKey(), draftsKey()}
		for _, b := range v.buckets(sale.ID) {
			want = append(want, b.keys()...)
		}
		keys, err := v.client.Keys(ctx, "*").Result()
		must(t, err)
		for _, k := range want {
			if !slices.Contains(keys, k) {
				t.Errorf("%s is not there, so nothing is said of it", k)
			}
		}
		for _, k := range keys {
			if ttl, err := v.client.PTTL(ctx, k).Result(); err != nil || ttl != -1 {
				t.Errorf("%s dies in %v (%v)", k, ttl, err)
			}
		}
	})
}

func TestStock_H09_AHoldOutlivesAFailoverAndIsFreedOnceInTime(t *testing.T) {
	master, replica := redistest.Replicated(t)
	v := &env{client: master.Client(t)}
	v.store = newStore(t, v.client, false)
	sale := v.openSale(t, 3, nil)
	o := v.won(t, sale, "ann")
	before, err := v.store.Find(t.Context(), o.ID)
	must(t, err)
	redistest.WaitReplica(t, replica)
	master.Kill()
	heir := &env{client: replica.Client(t)}
	must(t, heir.client.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	heir.store = newStore(t, heir.client, false)
	after, err := heir.store.Find(t.Context(), o.ID)
	heir.settled(t, sale, Reserved, nil, after, err)
	if !after.ExpiresAt.Equal(before.ExpiresAt) {
		t.Fatalf("its deadline was %v and is %v", before.ExpiresAt, after.ExpiresAt)
	}
	heir.sweeps(t, sale, 0)
	heir.advance(t, sale.ID, sale.Hold-10*time.Second)
	heir.sweeps(t, sale, 0)
	heir.advance(t, sale.ID, 10*time.Second)
	heir.sweeps(t, sale, 1)
	heir.sweeps(t, sale, 0)
	heir.level(t, sale.ID, 3, 0, 0)
}

// sweeps has a sweep free so many units.
func (v *env) sweeps(t *testing.T, sale Sale, want int64) {
	t.Helper()
	got, err := v.store.Sweep(t.Context(), sale.ID)
	must(t, err)
	if got.Freed != want {
		t.Fatalf("a sweep freed %d units, want %d", got.Freed, want)
	}
	checkInvariant(t, v.store, sale.ID)
}

// H-10: the wall clock of Redis is set back and forth. Each bucket remembers
// the latest time it acted on: what was over stays over, and nothing ends early.
func TestStock_H10_AClockThatIsSetBackEndsNothingEarlyAndReopensNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 3, func(s *Sale) { s.BuyerLimit = 1 })
		step := func(d time.Duration) { v.advance(t, sale.ID, d) }
		ann, bob := order(sale, "ann", 1), order(sale, "bob", 1)
		first := v.reserve(t, ann, Taken)
		step(-time.Hour)
		v.reserve(t, order(sale, "ann", 1), BuyerLimit)
		if r := v.reserve(t, ann, Known); r.Granted || r.Reservation.State != Reserved {
			t.Fatalf("her attempt still runs: %+v", r)
		}
		second := v.reserve(t, bob, Taken)
		if d := second.Reservation.ExpiresAt.Sub(second.Reservation.ReservedAt); d < sale.Hold || second.Reservation.ReservedAt.Before(first.Reservation.ReservedAt) {
			t.Fatalf("reserved at %v after %v, for %v", second.Reservation.ReservedAt, first.Reservation.ReservedAt, d)
		}
		v.sweeps(t, sale, 0)
		step(time.Hour) // set right again
		v.sweeps(t, sale, 0)
		step(sale.Hold - 10*time.Second)
		v.sweeps(t, sale, 0)
		step(10 * time.Second)
		v.sweeps(t, sale, 2)

		step(-time.Hour)
		v.sweeps(t, sale, 0)
		r, err := v.store.Find(ctx, ann.ID)
		v.settled(t, sale, Expired, nil, r, err)
		v.reserve(t, order(sale, "ann", 1), Taken) // her limit was given back, once
		v.reserve(t, order(sale, "ann", 1), BuyerLimit)
		step(time.Hour + sale.Hold - 10*time.Second)
		v.sweeps(t, sale, 0)

		step(time.Hour) // past the end, and her deadline
		v.sweeps(t, sale, 1)
		v.reserve(t, order(sale, "cid", 1), NotRunning)
		step(-30 * time.Minute)
		v.reserve(t, order(sale, "cid", 1), NotRunning)
		v.level(t, sale.ID, 3, 0, 0)
	})
}

// H-11: a script that reads the clock twice may contradict itself, and two
// members of one flight each other. Each script reads it once.
func TestStock_H11_AScriptReadsTheClockOnce(t *testing.T) {
	v := realEnv(t)
	ctx := t.Context()
	sale := v.openSale(t, 800, func(s *Sale) { s.Buckets = 2 })
	v.cacheScripts(t, sale)
	e, err := v.store.entry(ctx, sale.ID)
	must(t, err)
	o := order(sale, "ann", 1)
	l := loan{id: newLoanID(), units: 3}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"a flight", func() error { flightOf(v.store, e, sale, maxBatch); return nil }},
		{"reserve", func() error { _, err := v.store.Reserve(ctx, o); return err }},
		{"known", func() error { _, err := v.store.Reserve(ctx, o); return err }},
		{"accept", func() error { _, err := v.store.Accept(ctx, sale.ID, o.ID, 1, "S"); return err }},
		{"extend", func() error { _, err := v.store.Extend(ctx, sale.ID, o.ID, time.Second); return err }},
		{"stuck", func() error { return v.store.MarkStuck(ctx, sale.ID, o.ID) }},
		{"find", func() error { _, err := v.store.Find(ctx, o.ID); return err }},
		{"sweep", func() error { _, err := v.store.Sweep(ctx, sale.ID); return err }},
		{"lend", func() error { _, err := v.lendBy(t, v.store, sale.ID, l, 1); return err }},
		{"take in", func() error { return v.acceptBy(t, v.store, sale.ID, l, 1) }},
		{"level", func() error { _, err := v.store.Level(ctx, sale.ID); return err }},
		{"confirm", func() error { _, err := v.store.Confirm(ctx, sale.ID, o.ID, 0, "S"); return err }},
		{"release", func() error { _, err := v.store.Release(ctx, sale.ID, o.ID, 0); return err }},
	} {
		must(t, step.run()) // so that its script is cached
		must(t, v.client.ConfigResetStat(ctx).Err())
		must(t, step.run())
		calls := v.commandCalls(t)
		if scripts := calls["evalsha"] + calls["eval"]; scripts == 0 || calls["time"] != scripts {
			t.Errorf("%s: %d scripts asked for the time %d times", step.name, scripts, calls["time"])
		}
	}
	checkInvariant(t, v.store, sale.ID)
}

// commandCalls is how often each command has run, those of scripts too.
func (v *env) commandCalls(t *testing.T) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for line := range strings.Lines(v.client.Info(t.Context(), "commandstats").Val()) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n := 0
		if _, err := fmt.Sscanf(rest, "%d,", &n); err == nil {
			calls[name] = n
		}
	}
	return calls
}

// flightOf has n orders of bucket 0 travel in one script.
func flightOf(s *Store, e *entry, sale Sale, n int) []*passenger {
	all := make([]*passenger, n)
	for i := range all {
		all[i] = newPassenger(order(sale, userAt(sale, 0, len(e.cells), i), 1))
	}
	s.flight(context.Background(), e, e.cells[0], loan{}, all)
	return all
}

func TestStock_H11_AFlightHasOneTimeAndEachBucketItsOwnClock(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 200, func(s *Sale) { s.Buckets = 2 })
		e, err := v.store.entry(ctx, sale.ID)
		must(t, err)
		times := map[string]int{}
		moment := func(r Reservation) string { return fmt.Sprint(r.ReservedAt, r.ExpiresAt, r.AttemptUntil) }
		for _, p := range flightOf(v.store, e, sale, 60) {
			must(t, p.err)
			res, err := v.store.result(e, e.cells[0], p.order, p.answer)
			must(t, err)
			times[moment(res.Reservation)]++
		}
		must(t, v.store.Ledger(ctx, sale.ID, func(r Reservation) error { times[moment(r)]++; return nil }))
		if len(times) != 1 {
			t.Errorf("one flight at %d times: %v", len(times), times)
		}
		v.reserve(t, order(sale, userAt(sale, 1, 2, 0), 1), Taken)
		// The first bucket's server is ahead of the other one's.
		skew := func(d time.Duration) {
			must(t, v.client.HIncrBy(ctx, v.bucket(sale.ID).headKey(), "epoch", -d.Milliseconds()).Err())
		}
		skew(sale.Hold - 10*time.Second)
		v.sweeps(t, sale, 0)
		skew(11 * time.Second)
		v.sweeps(t, sale, 60) // its own, and not the one of the other
		v.move(t, sale.ID, 0, 1, 30)
		v.move(t, sale.ID, 1, 0, 10)
		v.holds(t, sale.ID, 80, 119)
	})
}

// H-21: who holds a lease may stand still until it has run out. Leases are for
// liveness; every write carries its generation, and an old one is refused.
func TestStock_H21_APausedGathererOrPreheatWritesNothingAfterwards(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		start := v.redisNow(t).Add(time.Hour)
		sale := v.openSale(t, 40, func(s *Sale) { s.Buckets, s.StartAt, s.EndAt = 2, start, start.Add(time.Hour) })
		slow := v.another(t, "slow")
		e, err := slow.entry(ctx, sale.ID)
		must(t, err)
		_, text, err := slow.readRecord(ctx, sale.ID)
		must(t, err)
		_, generation, _, err := slow.begin(ctx, sale.ID)
		must(t, err)
		v.leaseOver(t, sale.ID) // here it stands still
		mine := record{Plan: sale, Start: start.UnixMilli(), Generation: generation, Previous: 1, Desired: DesiredOn}
		late := func() {
			t.Helper()
			if err := slow.switchTo(ctx, mine, text); !errors.Is(err, ErrUnavailable) {
				t.Errorf("its switch: %v", err)
			}
		}
		if code, _, _, err := v.store.begin(ctx, sale.ID); err != nil || code != 3 {
			t.Fatalf("the dead one's lease was not found over: %d, %v", code, err)
		}
		late() // no other has switched yet
		v.leaseOver(t, sale.ID)
		second := sale
		second.Version, second.Total = 2, 60
		_, err = v.store.Preheat(ctx, second)
		must(t, err)
		v.holds(t, sale.ID, 30, 30)
		before := stockKeys(t, v.client)
		late()
		v.pausedGatherer(t, slow, e, before)
		v.holds(t, sale.ID, 30, 30)
		if view, err := v.store.freshView(ctx, sale.ID); err != nil || view.Sale.Version != 2 {
			t.Errorf("%+v, %v", view, err)
		}
	})
}

// pausedGatherer wakes up with what it knew, and moves stock as it meant to.
func (v *env) pausedGatherer(t *testing.T, slow *Store, e *entry, before map[string]string) {
	t.Helper()
	ctx := t.Context()
	l := loan{id: newLoanID(), units: 3}
	if n, err := slow.lend(ctx, e, l, 1, false); !errors.Is(err, ErrUnavailable) || n != 0 {
		t.Errorf("it lent %d units: %v", n, err)
	}
	if err := slow.takeIn(ctx, e, e.cells[1], l); !errors.Is(err, ErrUnavailable) {
		t.Errorf("it had them taken in: %v", err)
	}
	if !maps.Equal(before, stockKeys(t, v.client)) {
		t.Error("it wrote something")
	}
}

// lastCopy is an archive during whose copy something happens.
type lastCopy struct {
	*caseArchive
	during func()
}

func (a *lastCopy) Save(ctx context.Context, sale Sale, rows []Reservation) error {
	if a.during != nil {
		a.during()
	}
	return a.caseArchive.Save(ctx, sale, rows)
}

func TestStock_H21_NothingIsWrittenBehindTheLastCopyOfASale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		kept := &lastCopy{caseArchive: newCaseArchive()}
		v.store.archive = kept
		sale := v.openSale(t, 40, func(s *Sale) { s.Buckets = 2 })
		ann := v.won(t, sale, "ann")
		slow := v.another(t, "slow")
		e, err := slow.entry(ctx, sale.ID)
		must(t, err)
		_, err = v.store.SetDesired(ctx, sale.ID, DesiredCancelled)
		must(t, err)
		copies := 0
		kept.during = func() {
			copies++
			v.pausedGatherer(t, slow, e, stockKeys(t, v.client))
			if _, err := slow.Confirm(ctx, sale.ID, ann.ID, 0, "S"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("paid behind the copy: %v", err)
			}
		}
		must(t, v.store.Cleanup(ctx, sale.ID))
		if copies == 0 || len(stockKeys(t, v.client)) != 0 {
			t.Fatalf("%d copies, %d keys left", copies, len(stockKeys(t, v.client)))
		}
		v.pausedGatherer(t, slow, e, map[string]string{}) // no key comes back to life
		r, err := v.store.Find(ctx, ann.ID)
		if err != nil || r.State != Reserved {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
