package inventory

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
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
	v.level(t, sale.ID, 9, 1, 0)
	_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredOn)
	must(t, err)
	v.reserve(t, order(sale, "cid", 1), Taken)
	must(t, v.store.Refresh(t.Context()))
	if view, _ := v.store.View(sale.ID); view.Desired != DesiredOn || view.Reason != "" {
		t.Fatalf("paused again for a gap that was judged: %+v", view)
	}
}

func TestFence_AReplicaThatSawMoreFindsTheGapAfterAnotherArmed(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	blind := newStore(t, v.client, false)
	must(t, blind.Refresh(t.Context()))
	older := v.backup(t)
	v.won(t, sale, "ann")
	v.restart(t, older)
	// The other replica saw nothing of it: it arms and sells past the old seq.
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
		"first reading":                    {saw("", 0, 0), "a", []int64{0}, 7, 0, false},
		"it moved on":                      {saw("a", 1, 7), "a", []int64{0}, 9, 7, false},
		"answers overtook the reading":     {saw("a", 1, 9), "a", []int64{0}, 8, 7, false},
		"it went back":                     {saw("a", 1, 9), "a", []int64{0}, 8, 9, true},
		"armed with everything":            {saw("a", 1, 9), "b", []int64{0, 9}, 12, 9, false},
		"armed with less":                  {saw("a", 1, 9), "b", []int64{0, 8}, 12, 9, true},
		"two armings, the first was short": {saw("a", 1, 9), "c", []int64{0, 8, 12}, 12, 9, true},
		"the arming was lost too":          {saw("b", 2, 9), "c", []int64{0, 8}, 12, 9, true},
	} {
		if got := c.w.inspect(c.run, c.armed, c.seq, c.before); got != c.gap {
			t.Errorf("%s: gap %v, want %v", name, got, c.gap)
		}
		if c.w.inspect(c.run, c.armed, c.w.seen(), c.w.seen()) {
			t.Errorf("%s: reported twice", name)
		}
	}
}
