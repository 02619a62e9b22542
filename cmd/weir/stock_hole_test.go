package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/redistest"
	"weir/inventory"
)

// hole is a stock whose files change while no gateway lives.
type hole struct {
	c     Config
	files string // the append-only files
	// down and up end and start the Redis where a gateway does not do so.
	down, up func()
}

// holes runs a test on weir's own Redis, and on an external one beside an own
// data folder.
func holes(t *testing.T, test func(t *testing.T, h hole)) {
	t.Run("local", func(t *testing.T) {
		needRedis(t)
		c := quiet(t, "local")
		test(t, hole{c, filepath.Join(c.Data, "appendonlydir"), func() {}, func() {}})
	})
	t.Run("external", func(t *testing.T) {
		n := redistest.Single(t, "--appendfsync", "always")
		test(t, hole{onNode(t, n), filepath.Join(n.Dir(), "appendonlydir"), n.Kill, n.Start})
	})
}

// between ends the gateway and the Redis, lets do change the files, and starts them again.
func (h hole) between(t *testing.T, w *world, do func()) (*world, string) {
	t.Helper()
	h.marked(t, w)
	return h.restart(t, w, do)
}

func (h hole) restart(t *testing.T, w *world, do func()) (*world, string) {
	t.Helper()
	w.stop()
	h.down()
	do()
	h.up()
	again, said := bootHeard(t, h.c, nil)
	eventually(t, 10*time.Second, "it has looked twice", func() bool { return again.p.stock.Refresh(t.Context()) == nil })
	return again, said.String()
}

// marked waits until the marks hold what was sold.
func (h hole) marked(t *testing.T, w *world) {
	t.Helper()
	file := markFile{filepath.Join(h.c.Data, "marks.json")}
	eventually(t, 10*time.Second, "the marks are kept", func() bool {
		all, err := file.Load()
		v, ok := w.p.stock.View("demo")
		return err == nil && ok && len(all["demo"].Seqs) == 1 && all["demo"].Seqs[0] == v.Level.Seq && v.Level.Seq == w.invariant("demo").Seq
	})
}

func TestStock_H13_AnUntouchedStockGoesOnAfterARestart(t *testing.T) {
	holes(t, func(t *testing.T, h hole) {
		w := boot(t, h.c)
		w.sells("alice")
		w, said := h.between(t, w, func() {})
		if v, _ := w.p.stock.View("demo"); v.Desired != inventory.DesiredOn || strings.Contains(said, "LOST") {
			t.Fatalf("%+v\n%s", v, said)
		}
		w.sells("bob")
		if l := w.invariant("demo"); l.Confirmed != 2 {
			t.Fatalf("%+v", l)
		}
	})
}

// TestStock_H13_AStockCutBackWhileNoGatewayLived: T-31 too.
func TestStock_H13_AStockCutBackWhileNoGatewayLived(t *testing.T) {
	older := filepath.Join(t.TempDir(), "older")
	for name, cut := range map[string]struct {
		before, after func(t *testing.T, files string)
	}{
		"an older copy": {
			func(t *testing.T, files string) { noErr(t, os.CopyFS(older, os.DirFS(files))) },
			func(t *testing.T, files string) {
				noErr(t, os.RemoveAll(files))
				noErr(t, os.Rename(older, files))
			},
		},
		"its end cut off": {func(*testing.T, string) {}, cutLastCommand},
	} {
		t.Run(name, func(t *testing.T) {
			holes(t, func(t *testing.T, h hole) {
				w := boot(t, h.c)
				w.sells("alice")
				cut.before(t, h.files)
				bob, cid := w.person("bob"), w.person("cid")
				bobs, cids := bob.buy(bob.mustPass("demo")), cid.buy(cid.mustPass("demo"))
				if bobs.status != http.StatusSeeOther || cids.status != http.StatusSeeOther {
					t.Fatal(bobs, cids)
				}
				w, said := h.between(t, w, func() { cut.after(t, h.files) })
				h.pausedAndTold(t, w, said)
				h.goesOn(t, w)
			})
		})
	}
}

// pausedAndTold: everybody can see that something is missing.
func (h hole) pausedAndTold(t *testing.T, w *world, said string) {
	t.Helper()
	for _, word := range []string{"STOCK LOST", "sale=demo", "missing=", "weir sale reconcile demo"} {
		if !strings.Contains(said, word) {
			t.Errorf("the log does not say %q:\n%s", word, said)
		}
	}
	v, _ := w.p.stock.View("demo")
	if v.Desired != inventory.DesiredPaused || !strings.Contains(v.Reason, "missing after a restart") {
		t.Errorf("desired %s, reason %q", v.Desired, v.Reason)
	}
	if code, out := w.weirSays("sale", "show", "demo"); code != exitOK || !strings.Contains(out, "paused") {
		t.Errorf("sale show: %d\n%s", code, out)
	}
	if r := buyAttempt(w, "dora"); r.code() != "sale_paused" {
		t.Errorf("a buyer: %s", r)
	}
	if metrics := string(w.op("GET", "/metrics", nil).body); !strings.Contains(metrics, "weir_stock_lost_total 1\n") {
		t.Error("no metric of the loss")
	}
	w.apartFromTheArchive("demo") // the books agree among themselves: less was sold than in truth
}

// goesOn: an operator has compared it with the shop's orders, and resumes.
func (h hole) goesOn(t *testing.T, w *world) {
	t.Helper()
	if code, out := w.weirSays("sale", "resume", "demo"); code != exitOK {
		t.Fatalf("resume: %d %s", code, out)
	}
	w.sells("dora")
	w, said := h.between(t, w, func() {})
	if v, _ := w.p.stock.View("demo"); v.Desired != inventory.DesiredOn || strings.Contains(said, "LOST") {
		t.Errorf("a gap that was judged is one again: %+v\n%s", v, said)
	}
}

// cutLastCommand ends the newest file in the middle of the last change of the
// stock: Redis drops a broken command at the end, by aof-load-truncated.
func cutLastCommand(t *testing.T, files string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(files, "*.incr.aof"))
	noErr(t, err)
	last := all[len(all)-1]
	text, err := os.ReadFile(last)
	noErr(t, err)
	noErr(t, os.Truncate(last, int64(bytes.LastIndex(text, []byte(":ledger\r\n")))))
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStock_H13_AStockThatIsGoneIsNotPreheatedAnew(t *testing.T) {
	holes(t, func(t *testing.T, h hole) {
		w := boot(t, h.c)
		w.sells("alice")
		h.marked(t, w)
		for range 2 { // a second restart does not forget it either
			var said string
			w, said = h.restart(t, w, func() { noErr(t, os.RemoveAll(h.files)) })
			if !strings.Contains(said, "STOCK LOST") {
				t.Errorf("the log says nothing:\n%s", said)
			}
			if v, ok := w.p.stock.View("demo"); ok {
				t.Errorf("it sells: %+v", v)
			}
			if r := buyAttempt(w, "bob"); r.code() != "not_on_sale" {
				t.Errorf("a buyer: %s", r)
			}
			if code, out := w.weirSays("sale", "preheat", "demo"); code != exitError || !strings.Contains(out, "stock_lost") {
				t.Errorf("preheat by hand: %d %s", code, out)
			}
		}
	})
}
