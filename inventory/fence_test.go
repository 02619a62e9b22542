package inventory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// restart kills the server and starts it on the same files, or on an older copy.
func (v *env) restart(t *testing.T, older string) {
	t.Helper()
	v.real.kill()
	if older != "" {
		must(t, os.RemoveAll(filepath.Join(v.real.dir, "appendonlydir")))
		must(t, os.CopyFS(filepath.Join(v.real.dir, "appendonlydir"), os.DirFS(older)))
	}
	v.real.start(t)
}

// backup copies the append-only file as it is now.
func (v *env) backup(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(v.real.dir, "backup")
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(v.real.dir, "appendonlydir"))))
	return dir
}

func TestFence_ACompleteRestartGoesOnAtOnce(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	o := v.won(t, sale, "ann")
	for range 2 {
		v.restart(t, "")
		r, err := v.store.Find(t.Context(), o.ID)
		must(t, err)
		if r.State != Reserved {
			t.Fatalf("%+v", r)
		}
		v.won(t, sale, "bob")
		must(t, v.store.Refresh(t.Context()))
		if view, _ := v.store.View(sale.ID); view.Desired != DesiredOn {
			t.Fatalf("%+v", view)
		}
		checkInvariant(t, v.store, sale.ID)
	}
	v.level(t, sale.ID, 7, 3, 0)
}

func TestFence_AGapPausesTheSaleUntilAnOperatorResumes(t *testing.T) { // T-31, H-13
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	v.won(t, sale, "ann")
	older := v.backup(t)
	v.won(t, sale, "bob")
	v.restart(t, older)
	v.reserve(t, order(sale, "cid", 1), NotRunning)
	must(t, v.store.Refresh(t.Context()))
	view, _ := v.store.View(sale.ID)
	if view.Desired != DesiredPaused || view.Reason == "" {
		t.Fatalf("%+v", view)
	}
	v.level(t, sale.ID, 8, 2, 0) // this replica remembered bob's win and told it again
	_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredOn)
	must(t, err)
	v.reserve(t, order(sale, "cid", 1), Taken)
	must(t, v.store.Refresh(t.Context()))
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredOn || view.Reason != "" {
		t.Fatalf("paused again for a gap that was judged: %+v", view)
	}
}

func TestFence_AGapOfASaleThatAPersonHasPausedIsNamedToo(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	ann := v.won(t, sale, "ann")
	_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredPaused)
	must(t, err)
	older := v.backup(t)
	_, err = v.store.Release(t.Context(), sale.ID, ann.ID, 0)
	must(t, err)
	v.restart(t, older)
	_, err = v.store.Find(t.Context(), ann.ID) // the first that meets the new server
	must(t, err)
	must(t, v.store.Refresh(t.Context()))
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredPaused || view.Reason != gapReason {
		t.Fatalf("%s, %q", view.Desired, view.Reason)
	}
}

// unreachable is a hook on which one script finds nobody to run it.
type unreachable struct {
	script string
	on     atomic.Bool
}

func (u *unreachable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unreachable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a := cmd.Args(); u.on.Load() && len(a) > 1 && a[1] == u.script {
			cmd.SetErr(&net.OpError{Op: "dial", Err: errors.New("refused")})
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (u *unreachable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestFence_WinsThatCannotBeToldAtOnceAreToldLater: the server that took over
// is found behind, and takes no writes for a while.
func TestFence_WinsThatCannotBeToldAtOnceAreToldLater(t *testing.T) {
	v := realEnv(t)
	ctx := t.Context()
	sale := v.openSale(t, 10, nil)
	v.won(t, sale, "ann")
	must(t, v.store.Refresh(ctx))
	older := v.backup(t)
	bob, cid := v.won(t, sale, "bob"), v.won(t, sale, "cid")
	v.restart(t, older)
	down := &unreachable{script: v.store.scripts.restore.sha}
	down.on.Store(true)
	v.client.AddHook(down)
	for range 2 { // the second is after the gap was judged
		must(t, v.store.Refresh(ctx))
		if l := v.store.Stats().Lost; l != 1 {
			t.Fatalf("%d losses", l)
		}
	}
	v.level(t, sale.ID, 9, 1, 0)
	down.on.Store(false)
	eventually(t, "both wins are there again", func() bool {
		must(t, v.store.Refresh(ctx))
		l, err := v.store.Level(ctx, sale.ID)
		return err == nil && l.Reserved == 3
	})
	for _, o := range []Order{bob, cid} {
		if r, err := v.store.Find(ctx, o.ID); err != nil || r.State != Reserved {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredPaused {
		t.Fatalf("%+v", view)
	}
	checkInvariant(t, v.store, sale.ID)
	must(t, v.store.Refresh(ctx))
	if v.store.views.Load().bySale[sale.ID].cells[0].untold.any() {
		t.Fatal("told, and still to be told")
	}
}

func TestFence_AReplicaThatSawMoreFindsTheGapAfterAnotherArmed(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	blind := newStore(t, v.client, false)
	older := v.backup(t)
	v.won(t, sale, "ann")
	v.restart(t, older)
	// The other replica saw nothing of it and believes itself alone: it arms and sells past the old seq.
	must(t, v.client.Del(t.Context(), replicasKey()).Err())
	must(t, blind.Refresh(t.Context()))
	for range 3 {
		res, err := blind.Reserve(t.Context(), order(sale, "bob", 1))
		must(t, err)
		if res.Code != Taken {
			t.Fatalf("%+v", res)
		}
	}
	must(t, v.store.Refresh(t.Context()))
	must(t, v.store.Refresh(t.Context()))
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredPaused {
		t.Fatalf("the loss went unnoticed: %+v", view)
	}
	res, err := blind.Reserve(t.Context(), order(sale, "cid", 1))
	must(t, err)
	if res.Code != NotRunning {
		t.Fatalf("%+v", res)
	}
}

func TestFence_ABucketThatOneOfTwoHasArmedSellsNothingUntilTheOtherHasLooked(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	blind := replicaNamed(t, v.client, false, "blind")
	must(t, blind.Refresh(t.Context()))
	older := v.backup(t)
	ann := v.won(t, sale, "ann")
	v.restart(t, older)
	short, cancel := context.WithTimeout(t.Context(), 2*blind.every)
	defer cancel()
	if res, err := blind.Reserve(short, order(sale, "bob", 1)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%+v %v", res, err)
	}
	waiting := make(chan error, 1)
	go func() {
		res, err := blind.Reserve(t.Context(), order(sale, "cid", 1))
		if err == nil && res.Code != NotRunning {
			err = fmt.Errorf("%+v", res)
		}
		waiting <- err
	}()
	must(t, v.store.Refresh(t.Context()))
	must(t, v.store.Refresh(t.Context())) // the first finds it and pauses
	must(t, <-waiting)
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredPaused {
		t.Fatalf("the loss went unnoticed: %+v", view)
	}
	if r, err := v.store.Find(t.Context(), ann.ID); err != nil || r.State != Reserved {
		t.Fatalf("%+v %v", r, err)
	}
	v.level(t, sale.ID, 9, 1, 0)

	// A restart that lost nothing costs no more than the others' time to look.
	must(t, second(v.store.SetDesired(t.Context(), sale.ID, DesiredOn)))
	v.restart(t, "")
	if res, err := blind.Reserve(t.Context(), order(sale, "bob", 1)); err != nil || res.Code != Taken {
		t.Fatalf("%+v %v", res, err)
	}
	checkInvariant(t, v.store, sale.ID)
}

// intruder is a hook that does something before each run of one script.
type intruder struct {
	unreachable
	act func()
}

func (i *intruder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a := cmd.Args(); len(a) > 1 && a[1] == i.script && i.on.CompareAndSwap(true, false) {
			i.act()
			i.on.Store(true)
		}
		return next(ctx, cmd)
	}
}

// TestFence_NothingIsSoldWhileWinsAreToldAgain: a reading, and no order, was
// the first to meet the server that has forgotten.
func TestFence_NothingIsSoldWhileWinsAreToldAgain(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	v.won(t, sale, "ann")
	older := v.backup(t)
	won := []Order{v.won(t, sale, "bob"), v.won(t, sale, "cid")}
	v.restart(t, older)
	tried := 0
	i := &intruder{unreachable: unreachable{script: v.store.scripts.restore.sha}, act: func() {
		tried++
		if res, err := v.store.Reserve(t.Context(), order(sale, "dan", 1)); err == nil && res.Granted {
			t.Errorf("sold before all was told: %+v", res)
		}
	}}
	i.on.Store(true)
	v.client.AddHook(i)
	must(t, v.store.Refresh(t.Context()))
	if tried < len(won) {
		t.Fatalf("only %d wins were told again", tried)
	}
	v.level(t, sale.ID, 7, 3, 0)
	checkInvariant(t, v.store, sale.ID)
}

func TestFence_AWipedRedisIsNeverSoldAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 10, nil)
		o := v.won(t, sale, "ann")
		must(t, v.client.FlushAll(ctx).Err())
		for range 2 {
			res, err := v.store.Reserve(ctx, order(sale, "bob", 1))
			must(t, err)
			if res.Code != NotPreheated {
				t.Fatalf("%+v", res)
			}
			if _, err := v.store.Release(ctx, sale.ID, o.ID, 1); !errors.Is(err, ErrUnknownSale) {
				t.Fatal(err)
			}
			if _, err := v.store.Preheat(ctx, sale); !errors.Is(err, ErrSaleStarted) {
				t.Fatalf("a sold stock was written anew: %v", err)
			}
		}
		if view, ok := v.store.View(sale.ID); !ok || view.Desired != DesiredPaused {
			t.Fatalf("%+v %v", view, ok)
		}
	})
}

func TestFence_ALostBucketIsNotPreheatedAndNotSoldOut(t *testing.T) { // T-04, trap 2
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 10, nil)
		must(t, v.client.Del(t.Context(), v.bucket(sale.ID).headKey()).Err())
		res, err := v.store.Reserve(t.Context(), order(sale, "ann", 1))
		must(t, err)
		if res.Code != NotPreheated {
			t.Fatalf("%+v", res)
		}
		if view, _ := v.store.View(sale.ID); view.SoldOut {
			t.Fatal("sold out")
		}
	})
}

func TestWatch_JudgesReadings(t *testing.T) {
	saw := func(run string, arms int, seq int64) *watch { return &watch{run: run, arms: arms, seq: seq} }
	for name, c := range map[string]struct {
		w           *watch
		run         string
		armed       []int64
		seq, before int64
		gap         bool
	}{
		"a first reading below its mark":   {saw("", 0, 9), "a", []int64{0}, 7, 9, true},
		"first reading":                    {saw("", 0, 0), "a", []int64{0}, 7, 0, false},
		"it moved on":                      {saw("a", 1, 7), "a", []int64{0}, 9, 7, false},
		"answers overtook the reading":     {saw("a", 1, 9), "a", []int64{0}, 8, 7, false},
		"it went back":                     {saw("a", 1, 9), "a", []int64{0}, 8, 9, true},
		"armed with everything":            {saw("a", 1, 9), "b", []int64{0, 9}, 12, 9, false},
		"armed with less":                  {saw("a", 1, 9), "b", []int64{0, 8}, 12, 9, true},
		"two armings, the first was short": {saw("a", 1, 9), "c", []int64{0, 8, 12}, 12, 9, true},
		"the arming was lost too":          {saw("b", 2, 9), "c", []int64{0, 8}, 12, 9, true},
	} {
		seen := c.w.seq
		found, got, _ := c.w.inspect(c.run, c.armed, c.seq, c.before)
		if got != c.gap || got && found >= seen {
			t.Errorf("%s: gap %v, want %v; found %d of %d", name, got, c.gap, found, seen)
		}
		if _, again, _ := c.w.inspect(c.run, c.armed, c.w.seen(), c.w.seen()); again {
			t.Errorf("%s: reported twice", name)
		}
	}
}
