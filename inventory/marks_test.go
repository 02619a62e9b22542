package inventory

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// notebook is Marks in memory, outside of any Store.
type notebook struct {
	mu       sync.Mutex
	kept     map[string]Mark
	saves    int
	broken   error // what Save and Load answer
	readOnly bool  // only Save is broken
}

func (n *notebook) Load() (map[string]Mark, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil && !n.readOnly {
		return nil, n.broken
	}
	return maps.Clone(n.kept), nil
}

func (n *notebook) Save(m map[string]Mark, _ ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.saves++
	if n.broken != nil {
		return n.broken
	}
	n.kept = maps.Clone(m)
	return nil
}

// marked is a replica that keeps its marks in a notebook.
func (v *env) marked(t testing.TB, n *notebook, hooks ...redis.Hook) *Store {
	t.Helper()
	s := v.replicaOf(t, "marked", func(c *Config, _ *redis.Options) { c.Marks = n })
	for _, h := range hooks {
		s.redis.AddHook(h)
	}
	return s
}

// snapshotOf notes all of Redis; restore takes it back to that, as an older file
// would,
// while no store lives.
func (v *env) snapshotOf(t *testing.T) (restore func()) {
	t.Helper()
	ctx := t.Context()
	type stored struct {
		hash map[string]string
		list []string
	}
	all := map[string]stored{}
	keys, err := v.client.Keys(ctx, "*").Result()
	must(t, err)
	for _, k := range keys {
		if v.client.Type(ctx, k).Val() == "list" {
			all[k] = stored{list: v.client.LRange(ctx, k, 0, -1).Val()}
		} else {
			all[k] = stored{hash: v.client.HGetAll(ctx, k).Val()}
		}
	}
	return func() {
		t.Helper()
		must(t, v.client.FlushAll(ctx).Err())
		for k, s := range all {
			for f, value := range s.hash {
				must(t, v.client.HSet(ctx, k, f, value).Err())
			}
			for _, value := range s.list {
				must(t, v.client.RPush(ctx, k, value).Err())
			}
		}
	}
}

func TestMarks_UnchangedStockGoesOn(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		n := &notebook{}
		v.store = v.marked(t, n)
		sale := v.openSale(t, 50, shape)
		v.won(t, sale, "ann")
		must(t, v.store.Refresh(t.Context()))
		saves := n.saves
		must(t, v.store.Refresh(t.Context()))
		if n.saves != saves {
			t.Fatal("marks that did not move were saved again")
		}
		v.store = v.marked(t, n) // the process starts anew
		must(t, v.store.Refresh(t.Context()))
		if view, _ := v.store.View(sale.ID); view.Desired != DesiredOn || view.Reason != "" {
			t.Fatalf("%+v", view)
		}
		v.won(t, sale, "bob")
		v.level(t, sale.ID, 48, 2, 0)
	})
}

func TestMarks_StockCutBackWhileNobodyLookedIsPaused(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		n := &notebook{}
		v.store = v.marked(t, n)
		sale := v.openSale(t, 50, shape)
		v.won(t, sale, "ann")
		restore := v.snapshotOf(t)
		v.won(t, sale, "bob")
		must(t, v.store.Refresh(t.Context()))
		restore()
		v.store = v.marked(t, n)
		v.pausedForGap(t, sale)
		if n := v.store.Stats().Lost; n < 1 {
			t.Fatal("no loss was counted")
		}
		_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredOn) // an operator looked into it
		must(t, err)
		v.store = v.marked(t, n)
		must(t, v.store.Refresh(t.Context()))
		if view, _ := v.store.View(sale.ID); view.Desired != DesiredOn {
			t.Fatalf("paused again for a gap that was judged: %+v", view)
		}
		v.won(t, sale, "cid")
	})
}

// pausedForGap: after a refresh the sale is paused with its reason, here and
// for every other replica, and nothing is sold.
func (v *env) pausedForGap(t *testing.T, sale Sale) {
	t.Helper()
	ctx := t.Context()
	must(t, v.store.Refresh(ctx))
	other := v.replicaOf(t, "other", nil)
	for _, s := range []*Store{v.store, other} {
		must(t, s.Refresh(ctx))
		view, ok := s.View(sale.ID)
		if !ok || view.Desired != DesiredPaused || view.Reason != gapReason {
			t.Fatalf("%+v", view)
		}
		res, err := s.Reserve(ctx, order(sale, "zoe", 1))
		must(t, err)
		if res.Code != NotRunning {
			t.Fatalf("%+v", res)
		}
	}
}

func TestMarks_APauseThatFailsIsTriedUntilItStands(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for step := 1; ; step++ {
			must(t, v.client.FlushAll(t.Context()).Err())
			n := &notebook{}
			v.store = v.marked(t, n)
			sale := v.openSale(t, 10, nil)
			v.won(t, sale, "ann")
			restore := v.snapshotOf(t)
			v.won(t, sale, "bob")
			must(t, v.store.Refresh(t.Context()))
			restore()
			f := &fault{from: step, count: 1}
			v.store = v.marked(t, n, f)
			_ = v.store.Refresh(t.Context())
			if f.hits == 0 {
				break
			}
			if step%2 == 0 { // it dies, and a new process starts
				v.store = v.marked(t, n)
			}
			v.pausedForGap(t, sale)
		}
	})
}

func TestMarks_AWipedRedisIsNotPreheatedAnew(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		n := &notebook{}
		v.store = v.marked(t, n)
		sale := v.openSale(t, 50, shape)
		v.won(t, sale, "ann")
		must(t, v.store.Refresh(t.Context()))
		must(t, v.client.FlushAll(t.Context()).Err())
		v.store = v.marked(t, n)
		for range 2 {
			must(t, v.store.Refresh(t.Context()))
			for _, version := range []int64{1, 2} {
				again := sale
				again.Version = version
				_, err := v.store.Preheat(t.Context(), again)
				if !errors.Is(err, ErrStockLost) && !errors.Is(err, ErrSaleStarted) {
					t.Fatalf("a sold stock was written anew: %v", err)
				}
			}
			if _, err := v.store.Reserve(t.Context(), order(sale, "bob", 1)); !errors.Is(err, ErrUnknownSale) {
				t.Fatal(err)
			}
		}
		// A sale that never sold is no loss.
		sale.ID, sale.Item = "another", "1002"
		_, err := v.store.Preheat(t.Context(), sale)
		must(t, err)
		must(t, v.client.FlushAll(t.Context()).Err())
		v.store = v.marked(t, n)
		_, err = v.store.Preheat(t.Context(), sale)
		must(t, err)
	})
}

// TestMarks_AForgottenSwitch: Redis falls back to the generation before the one
// that sold.
func TestMarks_AForgottenSwitchOfGenerationsIsAGap(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, alive := range []bool{false, true} { // is there a replica that saw it?
			must(t, v.client.FlushAll(t.Context()).Err())
			n := &notebook{}
			v.store = v.marked(t, n)
			first, second := v.later(t)
			restore := v.snapshotOf(t)
			second.StartAt = time.Time{}
			_, err := v.store.Preheat(t.Context(), second)
			must(t, err)
			v.won(t, second, "ann")
			must(t, v.store.Refresh(t.Context()))
			restore()
			if !alive {
				v.store = v.marked(t, n)
			}
			must(t, v.store.Refresh(t.Context()))
			must(t, v.store.Refresh(t.Context()))
			view, _ := v.store.View(first.ID)
			if view.Desired != DesiredPaused || view.Reason != gapReason {
				t.Fatalf("alive %v: generation %d sells what generation %d sold: %+v", alive, view.Generation, view.Generation+1, view)
			}
		}
	})
}

func TestMarks_ABookThatCannotBeReadStopsTheStart(t *testing.T) {
	v := memoryEnv(t)
	n := &notebook{broken: errors.New("disk")}
	_, err := New(Config{Redis: v.client, Memory: true, Log: v.store.log, Marks: n})
	if !errors.Is(err, n.broken) || !strings.Contains(err.Error(), "marks") {
		t.Fatal(err)
	}
}

func TestMarks_ABookThatCannotBeWrittenStopsNoSale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		n := &notebook{broken: errors.New("disk full"), readOnly: true}
		v.store = v.marked(t, n)
		sale := v.openSale(t, 10, nil)
		v.won(t, sale, "ann")
		saves := n.saves
		must(t, v.store.Refresh(t.Context()))
		must(t, v.store.Refresh(t.Context()))
		if n.saves < saves+2 {
			t.Fatal("it is not tried again")
		}
		n.mu.Lock()
		n.broken = nil
		n.mu.Unlock()
		must(t, v.store.Refresh(t.Context()))
		e, err := v.store.entry(t.Context(), sale.ID)
		must(t, err)
		if m := n.kept[sale.ID]; len(m.Seqs) != 1 || m.Seqs[0] != e.seen() || m.Generation != e.view.Generation {
			t.Fatalf("kept %+v, seen %d", m, e.seen())
		}
	})
}

func TestMarks_TheLaterOfTwoIsKept(t *testing.T) {
	at := func(judged, generation int64, seqs ...int64) Mark { return Mark{generation, seqs, judged} }
	for name, c := range map[string]struct{ a, b, want Mark }{
		"the higher count of each bucket":    {at(0, 1, 5, 2), at(0, 1, 3, 4), at(0, 1, 5, 4)},
		"the higher generation":              {at(0, 1, 9), at(0, 2, 0), at(0, 2, 0)},
		"a loss that was judged":             {at(0, 1, 9), at(1, 1, 5), at(1, 1, 5)},
		"a fallen generation that was found": {at(0, 2, 9), at(1, 1, 5), at(1, 1, 5)},
	} {
		for _, got := range []Mark{c.a.Merge(c.b), c.b.Merge(c.a)} {
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	for name, c := range map[string]struct{ old, now, want Mark }{
		"it went on":            {at(1, 1, 5), at(0, 1, 6), at(1, 1, 6)},
		"a new generation":      {at(1, 1, 5), at(0, 2, 0), at(1, 2, 0)},
		"it went back":          {at(1, 1, 5, 5), at(0, 1, 6, 4), at(2, 1, 6, 4)},
		"its generation did so": {at(0, 2, 5), at(0, 1, 9), at(1, 1, 9)},
	} {
		if got := c.now.after(c.old); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
