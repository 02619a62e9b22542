package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStock_T11_ARestartDoesNotReloadTheStock(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, shape)
		for i := range 4 { // sold, their orders still in a queue
			v.won(t, sale, fmt.Sprint("u", i))
		}
		if v.real != nil {
			v.restart(t, "")
		}
		for i := range 3 { // each boot preheats what the plan says
			v.store = v.replicaOf(t, fmt.Sprint("boot", i), nil)
			view, err := v.store.Preheat(t.Context(), sale)
			must(t, err)
			if view.Generation != 1 || view.Level.Free != 46 || view.Level.Total != 50 {
				t.Fatalf("%+v", view)
			}
			v.level(t, sale.ID, 46, 4, 0)
			checkInvariant(t, v.store, sale.ID)
		}
		v.won(t, sale, "next")
	})
}

func TestStock_T17_NoOtherNumberIsWrittenOverALiveSale(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		sale := v.openSale(t, 50, shape)
		var flying []Order
		for i := range 5 {
			flying = append(flying, v.won(t, sale, fmt.Sprint("u", i)))
		}
		for name, c := range map[string]struct {
			change func(*Sale)
			want   error
		}{
			"the database's number": {func(s *Sale) { s.Total = 100 }, ErrVersionReused},
			"as a new version":      {func(s *Sale) { s.Version, s.Total = 2, 100 }, ErrSaleStarted},
			"the same plan anew":    {func(s *Sale) { s.Version = 2 }, ErrSaleStarted},
			"with a later start":    {func(s *Sale) { s.Version, s.StartAt = 2, s.EndAt.Add(-time.Minute) }, ErrSaleStarted},
		} {
			align := sale
			c.change(&align)
			if _, err := v.store.Preheat(ctx, align); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			v.level(t, sale.ID, 45, 5, 0)
		}
		// The script itself, for the generation in force, writes nothing.
		r, _, err := v.store.readRecord(ctx, sale.ID)
		must(t, err)
		_, err = v.store.writeOnce(ctx, &r, v.bucket(sale.ID), 1000)
		must(t, err)
		v.level(t, sale.ID, 45, 5, 0)
		for _, o := range flying {
			_, err := v.store.Confirm(ctx, sale.ID, o.ID, 1, "S")
			must(t, err)
		}
		v.level(t, sale.ID, 45, 0, 5)
		checkInvariant(t, v.store, sale.ID)
	})
}

// refusing makes every command fail that names this key.
type refusing struct {
	key  string
	left int // commands that still fail; below 0 all
	hits int
}

func (r *refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.left == 0 || !slices.Contains(cmd.Args(), any(r.key)) {
			return next(ctx, cmd)
		}
		r.left--
		r.hits++
		err := &net.OpError{Op: "dial", Err: errors.New("refused")}
		cmd.SetErr(err)
		return err
	}
}

func (r *refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// tenBuckets is a pending sale over ten buckets, its second version, and the
// key of the eighth bucket that the next preheat writes.
func (v *env) tenBuckets(t *testing.T) (first, second Sale, eighth string) {
	t.Helper()
	start := v.redisNow(t).Add(time.Hour)
	first = v.openSale(t, 100, func(s *Sale) { s.Buckets, s.StartAt, s.EndAt = 10, start, start.Add(time.Hour) })
	second = first
	second.Version, second.Total, second.StartAt = 2, 200, start.Add(time.Minute)
	e, err := v.store.entry(t.Context(), first.ID)
	must(t, err)
	b := e.cells[7].bucket
	b.generation++
	return first, second, b.headKey()
}

func TestStock_T28_PreheatTwiceAndWithAnotherStartDoublesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		first, second, _ := v.tenBuckets(t)
		for range 2 {
			view, err := v.store.Preheat(t.Context(), first)
			must(t, err)
			if view.Generation != 1 || view.Level.Total != 100 {
				t.Fatalf("%+v", view)
			}
		}
		for range 2 {
			view, err := v.store.Preheat(t.Context(), second)
			must(t, err)
			if view.Generation != 2 || view.Level.Total != 200 || !view.Sale.StartAt.Equal(second.StartAt.Truncate(time.Millisecond)) {
				t.Fatalf("%+v", view)
			}
			if g := v.generations(t, first.ID); len(g) != 1 || g[0] != "2" {
				t.Fatalf("keys of generations %v", g)
			}
			checkInvariant(t, v.store, first.ID)
		}
	})
}

func TestStock_T28_ABucketThatFailsOnceIsWrittenAgainAlone(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		_, second, eighth := v.tenBuckets(t)
		r := &refusing{key: eighth, left: 2}
		s := v.replicaOf(t, "preheater", nil)
		s.redis.AddHook(r)
		view, err := s.Preheat(t.Context(), second)
		must(t, err)
		if r.hits != 2 || view.Level.Total != 200 {
			t.Fatalf("%d hits, %+v", r.hits, view)
		}
		v.onlyGeneration(t, second, 2)
	})
}

func TestStock_T28_ABucketThatRefusesLeavesTheOldSaleAndNoKeys(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		first, second, eighth := v.tenBuckets(t)
		s := v.replicaOf(t, "preheater", nil)
		s.redis.AddHook(&refusing{key: eighth, left: writeTries})
		if _, err := s.Preheat(t.Context(), second); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "bucket 8 of 10") {
			t.Fatal(err)
		}
		v.onlyGeneration(t, first, 1)
		_, err := v.store.Preheat(t.Context(), second) // it comes back
		must(t, err)
		v.onlyGeneration(t, second, 3)
	})
}

func TestStock_T28_AKilledPreheatIsCleanedUpByTheNext(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		first, second, eighth := v.tenBuckets(t)
		s := v.replicaOf(t, "preheater", nil)
		f := &fault{from: never}
		s.redis.AddHook(f)
		s.redis.AddHook(&dying{key: eighth, fault: f})
		if _, err := s.Preheat(t.Context(), second); err == nil {
			t.Fatal("a dead process succeeded")
		}
		if g := v.generations(t, first.ID); len(g) != 2 {
			t.Fatalf("nothing to clean up: generations %v", g)
		}
		must(t, v.store.Refresh(t.Context()))
		if view, _ := v.store.View(first.ID); view.Generation != 1 || view.Level.Free != 100 {
			t.Fatalf("the pointer moved: %+v", view)
		}
		v.leaseOver(t, first.ID)
		_, err := v.store.Preheat(t.Context(), second)
		must(t, err)
		v.onlyGeneration(t, second, 3)
	})
}

// dying ends all commands from the first one on that names this key.
type dying struct {
	refusing
	key   string
	fault *fault
}

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any(d.key)) {
			d.fault.next(0)
			err := &net.OpError{Op: "dial", Err: errors.New("dead")}
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// onlyGeneration: this plan is in force, whole, open, and nothing else is there.
func (v *env) onlyGeneration(t *testing.T, sale Sale, generation int64) {
	t.Helper()
	must(t, v.store.Refresh(t.Context()))
	view, _ := v.store.View(sale.ID)
	if view.Generation != generation || view.Sale.Version != sale.Version || view.Level.Free != sale.Total {
		t.Fatalf("%+v", view)
	}
	if g := v.generations(t, sale.ID); len(g) != 1 || g[0] != num(generation) {
		t.Fatalf("keys of generations %v", g)
	}
	if void := v.voidOf(t, sale.ID); void != "0" {
		t.Fatalf("shut by %s", void)
	}
	checkInvariant(t, v.store, sale.ID)
}

func TestStock_T29_TheFirstMomentIsOpenAndTheLastIsNot(t *testing.T) {
	v := memoryEnv(t) // the one whose clock stands still
	start := v.now.Add(10 * time.Second)
	sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.StartAt, s.EndAt = 5, start, start.Add(10*time.Second) })
	for _, c := range []struct {
		at    time.Time
		want  Code
		state SaleState
	}{
		{start.Add(-time.Millisecond), NotRunning, SalePending},
		{start, Taken, SaleRunning},
		{sale.EndAt.Add(-time.Millisecond), Taken, SaleRunning},
		{sale.EndAt, NotRunning, SaleEnded},
		{sale.EndAt.Add(time.Hour), NotRunning, SaleEnded},
	} {
		v.now = c.at
		v.mini.SetTime(c.at)
		v.reserve(t, order(sale, "ann", 1), c.want)
		if got, err := sale.StateAt(c.at); err != nil || got != c.state {
			t.Errorf("at %v: %s, %v; want %s", c.at, got, err, c.state)
		}
	}
	v.level(t, sale.ID, 48, 2, 0)
}

func TestStock_T29_OnARealServer(t *testing.T) {
	v := realEnv(t)
	start := v.redisNow(t).Add(time.Hour)
	sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.StartAt, s.EndAt = 5, start, start.Add(time.Hour) })
	for _, want := range []Code{NotRunning, Taken, NotRunning} {
		v.reserve(t, order(sale, "ann", 1), want)
		v.advance(t, sale.ID, time.Hour)
	}
}

func TestStock_T30_TimesAreMomentsAndDoNotShift(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		year := v.redisNow(t).Year() + 1
		drafts, err := NewDrafts(v.store)
		must(t, err)
		for i, text := range []string{
			"%d-03-29T02:30:00+01:00", "%d-03-29T02:30:00+02:00", // does not exist as a wall time in Berlin: two moments
			"%d-10-25T02:30:00+02:00", "%d-10-25T02:30:00+01:00", // exists twice
			"%d-06-01T17:17:00+05:45", "%d-06-01T17:17:00.123456Z",
		} {
			var start time.Time
			must(t, json.Unmarshal([]byte(fmt.Sprintf(`"`+text+`"`, year)), &start))
			plan := planned()
			plan.ID, plan.Item = fmt.Sprint("s", i), fmt.Sprint("i", i)
			plan.StartAt, plan.EndAt = start, start.Add(90*time.Minute)
			_, err := drafts.Create(t.Context(), plan)
			must(t, err)
			for range 3 { // read, sent to an editor as JSON, saved again
				plan = readAndSaved(t, drafts, plan.ID)
			}
			view, err := v.store.Preheat(t.Context(), plan)
			must(t, err)
			same := func(got, want time.Time) bool { return got.UnixMilli() == want.UnixMilli() }
			if !same(view.Sale.StartAt, start) || !same(view.Sale.EndAt, start.Add(90*time.Minute)) {
				t.Errorf("%s became %v – %v", text, view.Sale.StartAt, view.Sale.EndAt)
			}
			h := v.client.HMGet(t.Context(), v.bucket(plan.ID).headKey(), "epoch", "start", "end").Val()
			if at := millis(h[0]) + millis(h[1]); at != start.UnixMilli() || millis(h[2])-millis(h[1]) != 90*60*1000 {
				t.Errorf("%s lies in Redis as %v", text, h)
			}
		}
		var s Sale // no offset: nobody guesses one
		if err := json.Unmarshal([]byte(`{"starts_at":"2026-03-29T02:30:00"}`), &s); err == nil {
			t.Error("a time without its offset was taken")
		}
	})
}

func readAndSaved(t *testing.T, drafts *Drafts, id string) (plan Sale) {
	t.Helper()
	d, err := drafts.Find(t.Context(), id)
	must(t, err)
	text, err := json.Marshal(d.Plan)
	must(t, err)
	must(t, json.Unmarshal(text, &plan))
	d, err = drafts.Replace(t.Context(), plan, []string{AnyPlan})
	must(t, err)
	return d.Plan
}

func millis(v any) (n int64) {
	s, _ := v.(string)
	_, _ = fmt.Sscan(s, &n)
	return n
}

func TestStock_T11_AWipedRedisDoesNotBeginASaleThatTheArchiveKnowsAsSold(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		kept := newCaseArchive()
		v.store.archive = kept
		sale := v.openSale(t, 10, nil)
		o := v.won(t, sale, "ann")
		r, err := v.store.Confirm(t.Context(), sale.ID, o.ID, 0, "")
		must(t, err)
		must(t, kept.Save(t.Context(), sale, []Reservation{r}))
		must(t, v.client.FlushAll(t.Context()).Err())
		fresh := newStore(t, v.client, v.real == nil) // without any mark
		fresh.archive = kept
		if _, err := fresh.Preheat(t.Context(), sale); !errors.Is(err, ErrStockLost) {
			t.Fatal(err)
		}
		other := sale
		other.ID = "other"
		_, err = fresh.Preheat(t.Context(), other)
		must(t, err)
	})
}
