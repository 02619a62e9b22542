package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/redistest"
	"weir/inventory"
)

// TestStock_T31_WhatTheShopHasComesBack: Redis forgot two sold units while no
// gateway lived; the shop, or the archive, knows them.
func TestStock_T31_WhatTheShopHasComesBack(t *testing.T) {
	for name, archived := range map[string]bool{"by the shop": false, "by the archive too": true} {
		t.Run(name, func(t *testing.T) {
			h := withShopApart(t)
			if archived {
				h.c.Archive.URL, h.c.Archive.Interval = "sqlite:"+filepath.Join(t.TempDir(), "sales.db"), time.Second
			}
			w := boot(t, h.c)
			w.sells("alice")
			older := filepath.Join(t.TempDir(), "older")
			noErr(t, os.CopyFS(older, os.DirFS(h.files)))
			lost := map[string]string{}
			for _, user := range []string{"bob", "cid"} {
				r := buyAs(w, user)
				if r.status != http.StatusSeeOther {
					t.Fatal(r)
				}
				lost[user] = r.header.Get("Weir-Reservation")
			}
			if archived {
				eventually(t, 10*time.Second, "the archive has both", func() bool {
					kept, err := w.p.archive.Sale(t.Context(), "demo")
					return err == nil && kept.Sold == 3
				})
			}
			w, said := h.between(t, w, func() {
				noErr(t, os.RemoveAll(h.files))
				noErr(t, os.Rename(older, h.files))
			})
			h.pausedAndTold(t, w, said)
			w.reconciled(lost)
			h.goesOn(t, w)
		})
	}
}

// withShopApart is an external stock beside a shop that forgets nothing.
func withShopApart(t *testing.T) hole {
	n := redistest.Single(t, "--appendfsync", "always")
	c := onNode(t, n)
	shared := c.Redis.Stock
	shared.Addresses = []string{redistest.Single(t).Addr()}
	c.Redis.Shared = &shared
	return hole{c, filepath.Join(n.Dir(), "appendonlydir"), n.Kill, n.Start}
}

// reconciled: each lost unit is listed with its remedy, and applied once.
func (w *world) reconciled(lost map[string]string) {
	w.t.Helper()
	code, out := w.weirSays("sale", "reconcile", "demo")
	if code != exitError || !strings.Contains(out, fmt.Sprintf("%d differences", len(lost))) {
		w.t.Errorf("%d\n%s", code, out)
	}
	for user, id := range lost {
		if !strings.Contains(out, id) || !strings.Contains(out, "Put the sold unit back into the ledger.") {
			w.t.Errorf("%s's %s is not listed:\n%s", user, id, out)
		}
	}
	if l := w.apartFromTheArchive("demo"); l.Confirmed != 1 {
		w.t.Errorf("looking changed something: %+v", l)
	}
	if code, out = w.weirSays("sale", "reconcile", "demo", "--apply"); code != exitOK {
		w.t.Errorf("apply: %d\n%s", code, out)
	}
	if l := w.invariant("demo"); l.Confirmed != int64(1+len(lost)) {
		w.t.Errorf("after --apply: %+v", l)
	}
	states := w.states()
	for user, id := range lost {
		if states[id] != inventory.Confirmed {
			w.t.Errorf("%s's is %q", user, states[id])
		}
		if code, out := w.weirSays("sale", "ledger", "demo", "--user", user); code != exitOK || !strings.Contains(out, id) {
			w.t.Errorf("ledger of %s: %d\n%s", user, code, out)
		}
	}
	if code, out = w.weirSays("sale", "reconcile", "demo"); code != exitOK || !strings.Contains(out, "0 differences") {
		w.t.Errorf("again: %d\n%s", code, out)
	}
}
