package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// fault makes commands fail, counted from 1. With applied they are executed
// first and only their answer is lost.
type fault struct {
	from, count int // count 0 = never ends
	applied     bool
	mu          sync.Mutex // the background uses the link too
	seen, hits  int
}

func (f *fault) hit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	hit := f.seen >= f.from && (f.count == 0 || f.seen < f.from+f.count)
	if hit {
		f.hits++
	}
	return hit
}

// next makes the n-th command from here the first that fails; never: none.
func (f *fault) next(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from = f.seen + n
}

const never = 1e9

func (f *fault) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fault) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !f.hit() {
			return next(ctx, cmd)
		}
		if f.applied {
			_ = next(ctx, cmd)
			return io.EOF
		}
		return &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
}

func (f *fault) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !f.hit() {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

// faulty is another replica whose link to the same Redis fails.
func (v *env) faulty(t *testing.T, f *fault) *Store {
	opt := *v.client.Options()
	c := redis.NewClient(&opt)
	t.Cleanup(func() { c.Close() })
	c.AddHook(f)
	return newStore(t, c, v.real == nil)
}

// leaseOver lets the preheat lease of a dead replica pass.
func (v *env) leaseOver(t *testing.T, sale string) {
	t.Helper()
	if v.mini != nil {
		v.advance(t, sale, preheatLease)
		return
	}
	until, err := v.client.HGet(t.Context(), leaseKey(), "until").Int64()
	must(t, err)
	must(t, v.client.HSet(t.Context(), leaseKey(), "until", until-preheatLease.Milliseconds()).Err())
}

// generations are those that have keys.
func (v *env) generations(t *testing.T, sale string) []string {
	t.Helper()
	keys, err := v.client.Keys(t.Context(), "weir:{w*}:"+sale+":*").Result()
	must(t, err)
	once := map[string]bool{}
	for _, k := range keys {
		once[strings.Split(k, ":")[3]] = true
	}
	return slices.Sorted(maps.Keys(once))
}

func (v *env) voidOf(t *testing.T, sale string) string {
	t.Helper()
	return v.client.HGet(t.Context(), v.bucket(sale).headKey(), "void").Val()
}

// later is a sale that opens in an hour, and its second version.
func (v *env) later(t *testing.T) (first, second Sale) {
	start := v.redisNow(t).Add(time.Hour)
	first = v.openSale(t, 10, func(s *Sale) { s.StartAt, s.EndAt = start, start.Add(time.Hour) })
	second = first
	second.Version, second.Total = 2, 20
	return first, second
}

func TestPreheat_EachStepFailingLeavesTheOldOrTheNewWhole(t *testing.T) { // T-28, S4-7
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for step := 1; ; step++ {
				must(t, v.client.FlushAll(t.Context()).Err())
				v.store = newStore(t, v.client, v.real == nil)
				_, second := v.later(t)
				f := &fault{from: step, count: 1, applied: applied}
				_, err := v.faulty(t, f).Preheat(t.Context(), second)
				if f.hits == 0 {
					must(t, err)
					break
				}
				t.Run(fmt.Sprintf("step %d applied %v", step, applied), func(t *testing.T) { v.wholeAfter(t, second, err) })
			}
		}
	})
}

// wholeAfter: whatever happened, one version is in force and open, and doing it
// again ends with the second one and nothing else.
func (v *env) wholeAfter(t *testing.T, second Sale, err error) {
	must(t, v.store.Refresh(t.Context()))
	view, _ := v.store.View(second.ID)
	if err == nil && view.Sale.Version != 2 {
		t.Fatal("success was told, but the old version is in force")
	}
	if want := int64(10 * view.Sale.Version); view.Level.Total != want || view.Level.Free != want {
		t.Fatalf("version %d with %+v", view.Sale.Version, view.Level)
	}
	if void := v.voidOf(t, second.ID); void != "0" {
		t.Fatalf("version %d is shut by %s after %v", view.Sale.Version, void, err)
	}
	checkInvariant(t, v.store, second.ID)
	v.againToTheEnd(t, second)
}

func (v *env) againToTheEnd(t *testing.T, second Sale) {
	t.Helper()
	if v.client.HGet(t.Context(), leaseKey(), "until").Err() == nil {
		v.leaseOver(t, second.ID)
	}
	_, err := v.store.Preheat(t.Context(), second)
	must(t, err)
	third := second
	third.Version, third.Total = 3, 30
	view, err := v.store.Preheat(t.Context(), third)
	must(t, err)
	if view.Level.Total != 30 || view.Sale.Version != 3 {
		t.Fatalf("%+v", view)
	}
	if g := v.generations(t, second.ID); len(g) != 1 || g[0] != num(view.Generation) {
		t.Fatalf("keys of generations %v remain beside %d", g, view.Generation)
	}
	checkInvariant(t, v.store, second.ID)
}

func TestPreheat_DyingAtAnyStepIsHealedByTheNext(t *testing.T) { // S4-10
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for step := 1; ; step++ {
				must(t, v.client.FlushAll(t.Context()).Err())
				v.store = newStore(t, v.client, v.real == nil)
				_, second := v.later(t)
				f := &fault{from: step, applied: applied}
				_, err := v.faulty(t, f).Preheat(t.Context(), second)
				if f.hits == 0 {
					must(t, err)
					break
				}
				v.leaseOver(t, second.ID)
				must(t, v.store.Refresh(t.Context())) // mends what it finds
				if void := v.voidOf(t, second.ID); void != "0" {
					t.Fatalf("step %d: still shut by %s", step, void)
				}
				v.wholeAfter(t, second, err)
			}
		}
	})
}

func TestPreheat_IsIdempotentByVersion(t *testing.T) { // S4-8
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 10, nil)
		v.won(t, sale, "ann")
		view, err := v.store.Preheat(ctx, sale)
		must(t, err)
		if view.Generation != 1 || view.Level.Reserved != 1 {
			t.Fatalf("%+v", view)
		}
		for name, c := range map[string]struct {
			change func(*Sale)
			want   error
		}{
			"same version, other total": {func(s *Sale) { s.Total = 20 }, ErrVersionReused},
			"same version, other item":  {func(s *Sale) { s.Item = "1002" }, ErrVersionReused},
			"same version, a start":     {func(s *Sale) { s.StartAt = time.Unix(1, 0) }, ErrVersionReused},
			"higher, after the start":   {func(s *Sale) { s.Version = 2 }, ErrSaleStarted},
		} {
			other := sale
			c.change(&other)
			if _, err := v.store.Preheat(ctx, other); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			v.level(t, sale.ID, 9, 1, 0)
		}
		if void := v.voidOf(t, sale.ID); void != "0" {
			t.Fatalf("the running sale was shut by %s", void)
		}
		v.won(t, sale, "bob")
	})
}

func TestPreheat_RefusesWhatMustNotBeWritten(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		first, second := v.later(t)
		for name, c := range map[string]struct {
			change func(*Sale)
			want   error
		}{
			"invalid":            {func(s *Sale) { s.ID = "" }, ErrInvalidSale},
			"cap exceeded":       {func(s *Sale) { s.BucketCap = 19 }, ErrInvalidPreheat}, // S4-6
			"end is past":        {func(s *Sale) { s.StartAt, s.EndAt = time.Unix(1, 0), time.Unix(2, 0) }, ErrInvalidSale},
			"item on sale twice": {func(s *Sale) { s.ID = "other" }, ErrInvalidSale},
			"version below":      {func(s *Sale) { s.Version, s.Total = 1, 5 }, ErrVersionReused},
		} {
			sale := second
			c.change(&sale)
			if _, err := v.store.Preheat(ctx, sale); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			v.level(t, first.ID, first.Total, 0, 0)
			if g := v.generations(t, "*"); len(g) != 1 {
				t.Errorf("%s: keys of generations %v", name, g)
			}
		}
		must(t, v.client.HSet(ctx, tagsKey(), saleTag("twin"), "its-twin").Err())
		twin := second
		twin.ID, twin.Item = "twin", "1002"
		if _, err := v.store.Preheat(ctx, twin); !errors.Is(err, ErrInvalidSale) || !strings.Contains(err.Error(), "its-twin") {
			t.Fatalf("colliding tags: %v", err)
		}
	})
}

func TestPreheat_OfTwoReplicasAtOnceWritesOneStock(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := planned()
		sale.StartAt, sale.EndAt = time.Time{}, v.redisNow(t).Add(time.Hour)
		stores := []*Store{v.store, v.faulty(t, &fault{from: never}), v.faulty(t, &fault{from: 1e9})}
		parallel(t, len(stores), func(i int) error {
			_, err := stores[i].Preheat(t.Context(), sale)
			return err
		})
		view, _ := v.store.View(sale.ID)
		if g := v.generations(t, sale.ID); len(g) != 1 || g[0] != num(view.Generation) {
			t.Fatalf("generations %v, in force %d", g, view.Generation)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestPreheat_WithoutAStartOpensAtOnceAndStaysOpen(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		before := v.redisNow(t).Truncate(time.Millisecond)
		sale := v.openSale(t, 3, nil)
		view, _ := v.store.View(sale.ID)
		if view.Sale.StartAt.Before(before) || view.Sale.StartAt.After(v.redisNow(t)) {
			t.Fatalf("opened at %v, preheated after %v", view.Sale.StartAt, before)
		}
		again, err := v.store.Preheat(t.Context(), sale)
		must(t, err)
		if !again.Sale.StartAt.Equal(view.Sale.StartAt) {
			t.Fatalf("%v became %v", view.Sale.StartAt, again.Sale.StartAt)
		}
	})
}

func TestPreheat_OfANewVersionKeepsAPause(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		_, second := v.later(t)
		_, err := v.store.SetDesired(t.Context(), second.ID, DesiredPaused)
		must(t, err)
		view, err := v.store.Preheat(t.Context(), second)
		must(t, err)
		if view.Desired != DesiredPaused || view.Level.Total != 20 {
			t.Fatalf("%+v", view)
		}
	})
}

func TestReserve_OfAReplicaThatMissedTheSwitchFindsTheNewGeneration(t *testing.T) { // code -5
	v := memoryEnv(t)
	first, second := v.later(t)
	late := newStore(t, v.client, true)
	must(t, late.Refresh(t.Context()))
	_, err := v.store.Preheat(t.Context(), second)
	must(t, err)
	v.advance(t, first.ID, time.Hour)
	res, err := late.Reserve(t.Context(), order(second, "ann", 1))
	must(t, err)
	if res.Code != Taken {
		t.Fatalf("%+v", res)
	}
	v.level(t, second.ID, 19, 1, 0)
}

func TestSetDesired_IsPushedUntilTheBucketHasIt(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 3, nil)
		for step := 1; ; step++ {
			want := DesiredPaused
			if step%2 == 0 {
				want = DesiredOn
			}
			f := &fault{from: step}
			other := v.faulty(t, f)
			_, err := other.SetDesired(t.Context(), sale.ID, want)
			if f.hits == 0 {
				must(t, err)
				break
			}
			must(t, v.store.Refresh(t.Context()))
			view, _ := v.store.View(sale.ID)
			got := v.client.HGet(t.Context(), v.bucket(sale.ID).headKey(), "desired").Val()
			if got != string(view.Desired) {
				t.Fatalf("step %d: recorded %s, the bucket has %s", step, view.Desired, got)
			}
			_, err = v.store.SetDesired(t.Context(), sale.ID, want)
			must(t, err)
		}
	})
}

func TestPreheat_ASwitchThatArrivesAfterTheLeaseWasRevokedDoesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		first, second := v.later(t)
		_, text, err := v.store.readRecord(ctx, first.ID)
		must(t, err)
		_, generation, _, err := v.store.begin(ctx, first.ID)
		must(t, err)
		_, err = v.store.run(ctx, &v.store.scripts.revoke, []string{salesKey(), leaseKey()}, first.ID, generation)
		must(t, err)
		r := record{Plan: second, Start: second.StartAt.UnixMilli(), Generation: generation, Previous: 1, Desired: DesiredOn}
		if err := v.store.switchTo(ctx, r, text); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("it landed: %v", err)
		}
		view, err := v.store.freshView(ctx, first.ID)
		must(t, err)
		if view.Sale.Version != 1 {
			t.Fatalf("%+v", view)
		}
	})
}
