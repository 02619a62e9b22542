package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/redistest"
	"weir/internal/sampleshop"
	"weir/inventory"
)

const allStock = sampleshop.ProductStock

func TestStock_Quota_IsFrozenAtTheStartAndGoesBackAfterACancellation(t *testing.T) { // S4-9, S4-11
	modes(t, func(t *testing.T, mode string) {
		c := freezing(t, mode)
		c.Sales[0].Preheat, c.Sales[0].SafetyStock = "at_start", 5
		w := boot(t, c)
		shopHolds(t, w.p.shop, "demo", "frozen", 105, allStock-105)
		if q := w.quota("demo"); q.Stage != inventory.QuotaFrozen || q.Units != 105 || q.Item != "1001" || q.Version != 1 {
			t.Errorf("%+v", q)
		}
		w.says("demo", "quota         frozen, 105 units\n")
		w.sells("alice")
		w.preheats("demo", http.StatusOK, "") // again: nothing
		if code, out := w.weirSays("sale", "cancel", "demo"); code != exitOK {
			t.Fatalf("%d %s", code, out)
		}
		shopHolds(t, w.p.shop, "demo", "thawed", 105, allStock-1)
		eventually(t, 5*time.Second, "the state says so", func() bool { return w.quota("demo").Stage == inventory.QuotaThawed })
		w.says("demo", "quota         thawed, 104 of 105 units back to the shop\n")
	})
}

func TestStock_Quota_GoesBackAtTheEnd(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		c := freezing(t, mode)
		c.Sales[0].Preheat, c.Sales[0].EndsAt = "at_start", SaleTime{After: 3 * time.Second}
		w := boot(t, c)
		shopHolds(t, w.p.shop, "demo", "frozen", 100, allStock-100)
		w.sells("alice")
		shopHolds(t, w.p.shop, "demo", "thawed", 100, allStock-1)
	})
}

func TestStock_Quota_AnotherVersionChangesTheNumberOnce(t *testing.T) { // T-28
	c := freezing(t, "external")
	c.Redis.Stock.Addresses = []string{redistest.Single(t).Addr()}
	w := boot(t, c)
	start := time.Now().Add(time.Hour).Truncate(time.Second)
	steps := map[int64]bool{}
	for _, v := range []struct {
		total int64
		start time.Time
		asked int // steps so far
	}{{20, start, 1}, {20, start.Add(time.Minute), 1}, {30, start, 2}, {10, start, 3}} {
		w.plans(v.total, v.start)
		for range 2 {
			w.preheats("later", http.StatusOK, "")
			q := shopHolds(t, w.p.shop, "later", "frozen", v.total+5, allStock-v.total-5)
			steps[q.Step] = true
		}
		if len(steps) != v.asked {
			t.Errorf("%d questions, want %d", len(steps), v.asked)
		}
	}
	w.stop()
	w = boot(t, c)
	eventually(t, 10*time.Second, "it sees the sale", func() bool { _, ok := w.p.stock.View("later"); return ok })
	w.preheats("later", http.StatusOK, "")
	if q := shopHolds(t, w.p.shop, "later", "frozen", 15, allStock-15); !steps[q.Step] {
		t.Error("asked again after a restart")
	}
}

func TestStock_Quota_WhatTheShopRefusesIsNotPreheated(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, freezing(t, mode))
		start := time.Now().Add(time.Hour).Truncate(time.Second)
		const left = "the shop refused the quota (422): only 1000000 of item 1001 are left"
		w.plans(allStock, start) // and five for safety
		w.preheats("later", http.StatusUnprocessableEntity, "invalid_preheat", left)
		if code, out := w.weirSays("sale", "preheat", "later"); code != exitError || !strings.Contains(out, left) {
			t.Errorf("%d %s", code, out)
		}
		if _, ok := w.p.stock.View("later"); ok {
			t.Error("it is preheated")
		}
		if q, err := w.p.shop.Quota(t.Context(), "1001", "later"); err != nil || q.Stock != allStock || q.Units != 0 {
			t.Errorf("%+v %v", q, err)
		}
		w.plans(20, start)
		w.preheats("later", http.StatusOK, "")
		shopHolds(t, w.p.shop, "later", "frozen", 25, allStock-25)
		w.plans(allStock, start)
		w.preheats("later", http.StatusUnprocessableEntity, "invalid_preheat", "only 999975 of item 1001 are left")
		shopHolds(t, w.p.shop, "later", "frozen", 25, allStock-25) // the version in force keeps its own
		if q := w.quota("later"); q.Stage != inventory.QuotaFrozen || q.Units != 25 {
			t.Errorf("%+v", q)
		}
	})
	c := freezing(t, "memory")
	c.Sales[0].Preheat, c.Sales[0].Total = "at_start", allStock+1
	refused(t, c, "preheating the sale demo", "only 1000000 of item 1001 are left")
}

func TestStock_Quota_AShopThatIsAwayIsAskedAgainAndNothingDoubles(t *testing.T) {
	for name, mood := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){"silent": silent, "forgetful": forgetful, "broken": broken} {
		t.Run(name, func(t *testing.T) {
			shop, c := newMoodyShop(t), freezing(t, "memory")
			c.Upstream.URL = shop.url
			w := boot(t, c)
			start := time.Now().Add(time.Hour)
			w.plans(20, start)
			shop.is(mood)
			begun := time.Now()
			w.preheats("later", http.StatusServiceUnavailable, "quota_unknown", "The shop did not say")
			if took := time.Since(begun); took > 9*time.Second || shop.asked() != 3 {
				t.Errorf("asked %d times in %v", shop.asked(), took)
			}
			if _, ok := w.p.stock.View("later"); ok {
				t.Error("it is preheated")
			}
			w.says("later", "quota         freezing, 25 units\n", "quota fault   asking the shop for a quota (upstream.quota): ")
			shop.is(nil)
			w.preheats("later", http.StatusOK, "")
			shopHolds(t, shop.Shop, "later", "frozen", 25, allStock-25)
			shop.is(mood)
			if code, out := w.weirSays("sale", "cancel", "later"); code != exitOK { // at once: the shop is asked behind
				t.Fatalf("%d %s", code, out)
			}
			eventually(t, 10*time.Second, "it tries", func() bool { q := w.quota("later"); return q.Stage == inventory.QuotaThawing && q.Fault != "" })
			shop.is(nil)
			shopHolds(t, shop.Shop, "later", "thawed", 25, allStock)
		})
	}
}

func TestStock_Quota_AShopThatIsAwayAtTheStartIsNamed(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	c := freezing(t, "memory")
	c.Sales[0].Preheat, c.Upstream.URL = "at_start", srv.URL
	env := map[string]string{}
	for _, name := range []string{"WEIR_SECRET", "WEIR_JWT_SECRET", "WEIR_ADMIN_TOKEN"} {
		env[name] = testEnv(c)(name)
	}
	if why := whyNot(t, c, env); !strings.Contains(why, "the shop refused the quota (404): 404 page not found") {
		t.Error(why)
	}
	srv.Close()
	if why := whyNot(t, c, env); !strings.Contains(why, "preheating the sale demo") || !strings.Contains(why, "upstream.quota") || !strings.Contains(why, "refused") {
		t.Error(why)
	}
}

// TestStock_Quota_WhatAKilledPreheatFrozeGoesBack: the shop froze, the gateway
// that asked was killed before it learned of it, and nobody preheats again.
func TestStock_Quota_WhatAKilledPreheatFrozeGoesBack(t *testing.T) {
	shop, n, dir := newMoodyShop(t), redistest.Single(t), isolate(t)
	frozen := make(chan struct{})
	shop.is(func(_ http.ResponseWriter, r *http.Request, handler http.Handler) {
		handler.ServeHTTP(httptest.NewRecorder(), r)
		close(frozen)
		<-r.Context().Done()
	})
	file := filepath.Join(dir, "config.yaml")
	noErr(t, os.WriteFile(file, fmt.Appendf(nil, `
listen: {address: "127.0.0.1:0"}
admin: {address: "127.0.0.1:0"}
redis: {mode: external, stock: {addresses: [%q]}}
upstream: {url: %q, quota: %q}
sales: [{id: demo, item: "1001", ends_at: +1h, total: 100}]
`, n.Addr(), shop.url, sampleshop.QuotaPath), 0o600))
	cmd := exec.Command(os.Args[0], "serve", "--config", file)
	said := &lockedBuffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	cmd.Env = append(os.Environ(), asWeir+"=1")
	c := freezing(t, "external")
	c.Upstream.URL, c.Redis.Stock.Addresses = shop.url, []string{n.Addr()}
	for _, name := range []string{"WEIR_SECRET", "WEIR_JWT_SECRET", "WEIR_ADMIN_TOKEN"} {
		cmd.Env = append(cmd.Env, name+"="+testEnv(c)(name))
	}
	noErr(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	select {
	case <-frozen:
	case <-time.After(20 * time.Second):
		cmd.Process.Kill()
		t.Fatalf("it did not ask:\n%s", said)
	}
	noErr(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	shop.is(nil)
	shopHolds(t, shop.Shop, "demo", "frozen", 100, allStock-100)
	w := boot(t, c)
	if q := w.quota("demo"); q.Stage != inventory.QuotaFreezing || q.Units != 100 {
		t.Fatalf("%+v", q)
	}
	shopHolds(t, shop.Shop, "demo", "thawed", 100, allStock)
	w.preheats("demo", http.StatusOK, "")
	shopHolds(t, shop.Shop, "demo", "frozen", 100, allStock-100)
}
