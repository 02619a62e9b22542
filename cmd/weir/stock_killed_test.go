package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/redistest"
)

// killedAfterTheScript is a gateway of its own that is killed -9 when the script
// has taken a unit for the buyer and nothing was forwarded yet.
func killedAfterTheScript(t *testing.T, w *world, n *redistest.Node, shared string, u *person, pass string) {
	t.Helper()
	proxy := redistest.NewProxy(t, n.Addr())
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	noErr(t, os.WriteFile(file, fmt.Appendf(nil, `
listen: {address: "127.0.0.1:0", trusted_proxies: ["127.0.0.1"]}
admin: {address: "127.0.0.1:0"}
data: %q
redis: {mode: external, stock: {addresses: [%q], read_timeout: 5s}, shared: {addresses: [%q]}}
judge: {enabled: false}
upstream: {timeout: 1s, connect_timeout: 1s}
limits: {user: {mode: off}, pass: {mode: off}, challenge: {mode: off}, network: {mode: off}}
sales: [{id: demo, item: "1001", starts_at: now, ends_at: +1h, total: 10, hold: 20s, expiry: ask, settle: accept}]
`, w.p.cfg.Data, proxy.Addr(), shared), 0o600))
	victim := weir(t, dir, "serve", "--config", file)
	if victim.url == "" {
		t.Fatalf("it did not start:\n%s", victim.stderr)
	}
	before := w.invariant("demo")
	proxy.HangReply("EVALSHA", 0)
	there := *u
	there.w = &world{t: t, url: victim.url}
	answered := make(chan error, 1)
	go func() {
		_, err := there.do("POST", "/buy/1001", nil, withPass(pass))
		answered <- err
	}()
	eventually(t, 10*time.Second, "the script has run", func() bool { return w.invariant("demo").Reserved == before.Reserved+1 })
	noErr(t, victim.cmd.Process.Kill())
	<-victim.exited
	if err := <-answered; err == nil {
		t.Fatal("the buyer got an answer")
	}
}

// TestStock_T14_AGatewayKilledBetweenScriptAndForward: another one asks the shop
// when the attempt has run out. The shop knows nothing, so the unit is free
// again; or the buyer comes back first, and his order is made, once.
func TestStock_T14_AGatewayKilledBetweenScriptAndForward(t *testing.T) {
	n, shared := redistest.Single(t), redistest.Single(t)
	c := onNode(t, n)
	other := c.Redis.Stock
	other.Addresses = []string{shared.Addr()}
	c.Redis.Shared = &other
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
	c.Sales[0].Total, c.Sales[0].Hold = 10, 20*time.Second
	w := boot(t, c)
	w.sells("warm") // the script is in Redis's cache

	gone := w.person("gone")
	killedAfterTheScript(t, w, n, shared.Addr(), gone, gone.mustPass("demo"))
	if l := w.settled(); l.Free != 9 || l.Confirmed != 1 || len(w.orders()) != 1 {
		t.Fatalf("the unit is not free again: %+v, %d orders", l, len(w.orders()))
	}

	back := w.person("back")
	pass := back.mustPass("demo")
	killedAfterTheScript(t, w, n, shared.Addr(), back, pass)
	eventually(t, 15*time.Second, "he has his order, or may solve again", func() bool {
		r := back.buy(pass)
		if r.code() == "pass_spent" { // the shop was asked first
			pass = back.mustPass("demo")
		}
		return r.status == http.StatusSeeOther || r.status == http.StatusOK
	})
	if l := w.settled(); l.Free != 8 || l.Confirmed != 2 || len(w.orders()) != 2 {
		t.Fatalf("not one order more: %+v, %d orders", l, len(w.orders()))
	}
}
