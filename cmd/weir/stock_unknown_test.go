package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
	"weir/inventory"
)

// harm is one way in which the answer of the reserve script does not arrive.
type harm struct {
	do       func(*redistest.Proxy) *redistest.Fault
	executed bool
}

// harms hit every script until they are cleared: the buyer's is among them.
func harms() map[string]harm {
	return map[string]harm{
		"dropped": {func(p *redistest.Proxy) *redistest.Fault { return p.DropReply("EVALSHA", 0) }, true},
		"hanging": {func(p *redistest.Proxy) *redistest.Fault { return p.HangReply("EVALSHA", 0) }, true},
		"cut":     {func(p *redistest.Proxy) *redistest.Fault { return p.CutBefore("EVALSHA", 0) }, false},
	}
}

// behindProxy is a stock behind a proxy; captcha and shop have a server of their own.
func behindProxy(t *testing.T, n *redistest.Node) (Config, *redistest.Proxy) {
	p := redistest.NewProxy(t, n.Addr())
	c := quiet(t, "external")
	c.Redis.Stock.Addresses, c.Redis.Stock.ReadTimeout = []string{p.Addr()}, 500*time.Millisecond
	shared := c.Redis.Stock
	shared.Addresses = []string{redistest.Single(t).Addr()}
	c.Redis.Shared = &shared
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
	c.Sales[0].Total, c.Sales[0].Hold = 10, 4*time.Second
	return c, p
}

// unsure is a buyer who was told that nobody knows.
type unsure struct {
	*person
	pass, at string
	executed bool
}

// leftUnsure lets one buyer meet each harm.
func leftUnsure(t *testing.T, w *world, proxy *redistest.Proxy) (all []unsure) {
	t.Helper()
	w.sells("warm") // the script is in Redis's cache
	for name, h := range harms() {
		u := unsure{person: w.person(name), executed: h.executed}
		u.pass = u.mustPass("demo")
		fault := h.do(proxy)
		r := u.buy(u.pass)
		fault.Clear()
		u.at = r.header.Get("Location")
		if r.status != http.StatusServiceUnavailable || r.code() != "outcome_unknown" || u.at == "" || r.header.Get("Retry-After") == "" {
			t.Fatalf("%s: %s %v", name, r, r.header)
		}
		all = append(all, u)
	}
	eventually(t, 10*time.Second, "what was executed is in the books", func() bool {
		a, err := w.p.stock.Audit(t.Context(), "demo")
		return err == nil && a.OK && a.Level.Reserved == 2
	})
	return all
}

// learns: where the buyer was sent he finds what is true.
func (u unsure) learns(t *testing.T) {
	t.Helper()
	r := u.must("GET", u.at, nil)
	if state := r.json()["state"]; u.executed && (r.status != http.StatusOK || state != "reserved" && state != "expired") {
		t.Errorf("%s at his reservation: %s", u.user, r)
	}
	if !u.executed && r.status != http.StatusNotFound {
		t.Errorf("%s has none: %s", u.user, r)
	}
}

// buysOne: the same pass gives exactly one unit, however often.
func (u unsure) buysOne(t *testing.T) {
	t.Helper()
	eventually(t, 15*time.Second, u.user+" has his unit", func() bool {
		r := u.buy(u.pass)
		if r.code() != "" && r.code() != "in_progress" && r.code() != "sale_paused" {
			t.Fatalf("%s: %s", u.user, r)
		}
		return r.status == http.StatusSeeOther || r.status == http.StatusOK
	})
	if r := u.buy(u.pass); r.status != http.StatusOK || r.json()["state"] != "confirmed" {
		t.Errorf("%s once more: %s", u.user, r)
	}
}

// told wants an answer of the sale's state that links the reservation.
func (u unsure) told(t *testing.T, code string) {
	t.Helper()
	var r reply
	eventually(t, 10*time.Second, "the sale says "+code, func() bool { r = u.buy(u.pass); return r.code() == code })
	if r.header.Get("Location") != u.at {
		t.Errorf("%s: %s leads to %q, want %q", u.user, code, r.header.Get("Location"), u.at)
	}
}

func TestStock_H2_ALostReplyIsOneUnitInEveryStateOfTheSale(t *testing.T) {
	steer := func(verb string) func(*world) {
		return func(w *world) { w.op("POST", "/api/v1/sales/demo/"+verb, nil) }
	}
	for name, s := range map[string]struct {
		change func(*Config)
		turn   func(*world)
		code   string // what the button says then
		goesOn bool
	}{
		"running":   {turn: func(*world) {}, goesOn: true},
		"paused":    {turn: steer("pause"), code: "sale_paused", goesOn: true},
		"cancelled": {turn: steer("cancel"), code: "sale_ended"},
		"ended":     {change: func(c *Config) { c.Sales[0].EndsAt = SaleTime{After: 6 * time.Second} }, turn: waitForEnd, code: "sale_ended"},
	} {
		t.Run(name, func(t *testing.T) {
			c, proxy := behindProxy(t, redistest.Single(t))
			if s.goesOn {
				c.Sales[0].Hold = 20 * time.Second
			}
			if s.change != nil {
				s.change(&c)
			}
			w := boot(t, c)
			buyers := leftUnsure(t, w, proxy)
			s.turn(w)
			for _, u := range buyers {
				if s.code != "" {
					u.told(t, s.code)
				}
				u.learns(t)
			}
			if s.goesOn {
				steer("resume")(w)
				w.allBought(t, buyers)
			} else {
				w.noneBought(t, buyers)
			}
		})
	}
}

// TestStock_H2_ALostReplyIsToldAtItsAddressWhenAllIsSold: others buy what was
// free, and then the units of holds that ran out. From memory everybody is told
// that all is sold; where he was sent each finds what became of his own order.
func TestStock_H2_ALostReplyIsToldAtItsAddressWhenAllIsSold(t *testing.T) {
	c, proxy := behindProxy(t, redistest.Single(t))
	w := boot(t, c)
	buyers := leftUnsure(t, w, proxy)
	for n := 0; w.invariant("demo").Free > 0; n++ {
		w.sells(fmt.Sprint("other", n))
	}
	for _, u := range buyers {
		u.learns(t)
	}
	for n := range 2 { // the units of the two that were executed
		late := w.person(fmt.Sprint("late", n))
		pass := late.mustPass("demo")
		eventually(t, 15*time.Second, "a hold runs out", func() bool { return late.buy(pass).status == http.StatusSeeOther })
	}
	for _, u := range buyers {
		if u.executed { // of the other one the ledger knows nothing that could be linked
			u.told(t, "sold_out")
		}
		u.learns(t)
	}
	if l := w.settled(); l.Confirmed != l.Total || int64(len(w.orders())) != l.Total {
		t.Errorf("want all sold: %+v, %d orders", l, len(w.orders()))
	}
}

func waitForEnd(w *world) {
	eventually(w.t, 10*time.Second, "the sale is over", func() bool {
		v, ok := w.p.stock.View("demo")
		return ok && v.StateAt(w.p.clock.Now()) == inventory.SaleEnded
	})
}

func (w *world) allBought(t *testing.T, buyers []unsure) {
	t.Helper()
	for _, u := range buyers {
		u.buysOne(t)
	}
	want := int64(1 + len(buyers))
	if l := w.settled(); l.Confirmed != want || int64(len(w.orders())) != want {
		t.Errorf("want %d sold: %+v, %d orders", want, l, len(w.orders()))
	}
}

// noneBought: nobody can go on, the shop has no order, and the holds fall due.
func (w *world) noneBought(t *testing.T, buyers []unsure) {
	t.Helper()
	if l := w.settled(); l.Confirmed != 1 || l.Free != l.Total-1 || len(w.orders()) != 1 {
		t.Errorf("want only the first one sold: %+v, %d orders", l, len(w.orders()))
	}
	for _, u := range buyers {
		u.learns(t)
	}
}

// TestStock_RefusalsOfRedisTakeNothing: what Redis itself refuses was certainly
// not executed, and the buyer is told so.
func TestStock_RefusalsOfRedisTakeNothing(t *testing.T) {
	n := redistest.Single(t)
	rdb := n.Client(t)
	c, _ := behindProxy(t, n)
	w := boot(t, c)
	w.sells("warm")
	do := func(args ...any) func() {
		return func() { noErr(t, rdb.Do(t.Context(), args...).Err()) }
	}
	ledger := rdb.Keys(t.Context(), "weir:*:demo:*:ledger").Val()[0]
	for name, f := range map[string]struct{ spoil, mend func() }{
		"OOM":        {do("CONFIG", "SET", "maxmemory", "1"), do("CONFIG", "SET", "maxmemory", "0")},
		"NOREPLICAS": {do("CONFIG", "SET", "min-replicas-to-write", "1"), do("CONFIG", "SET", "min-replicas-to-write", "0")},
		"READONLY":   {do("REPLICAOF", "127.0.0.1", "1"), do("REPLICAOF", "NO", "ONE")},
		"WRONGTYPE": {
			func() { do("RENAME", ledger, "aside")(); do("SET", ledger, "x")() },
			func() { do("RENAME", "aside", ledger)() },
		},
		"LOADING": loading(t, n),
	} {
		t.Run(name, func(t *testing.T) {
			p := w.person("buyer-" + name)
			pass := p.mustPass("demo")
			before := w.invariant("demo")
			f.spoil()
			r := p.buy(pass)
			f.mend()
			if r.status != http.StatusServiceUnavailable || r.code() != "inventory_unavailable" || r.header.Get("Retry-After") == "" {
				t.Errorf("%s", r)
			}
			if after := w.invariant("demo"); after.Free != before.Free || after.Reserved != before.Reserved {
				t.Errorf("%+v, then %+v", before, after)
			}
			eventually(t, 10*time.Second, "the same pass buys", func() bool { return p.buy(pass).status == http.StatusSeeOther })
			if v, _ := w.p.stock.View("demo"); v.Desired != inventory.DesiredOn {
				t.Errorf("it is %s: %s", v.Desired, v.Reason)
			}
		})
	}
	t.Run("NOSCRIPT", func(t *testing.T) {
		do("SCRIPT", "FLUSH")()
		w.sells("flushed")
	})
	if l := w.settled(); l.Confirmed != 7 || len(w.orders()) != 7 {
		t.Errorf("%+v, %d orders", l, len(w.orders()))
	}
}

// loading makes a server load its data, slowly, while it answers LOADING.
func loading(t *testing.T, n *redistest.Node) struct{ spoil, mend func() } {
	t.Helper()
	rdb := n.Client(t)
	done := make(chan error, 1)
	return struct{ spoil, mend func() }{
		func() {
			noErr(t, rdb.Eval(t.Context(), "for i = 1, 4000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end return 1", nil).Err())
			set(t, rdb, "key-load-delay", "500") // µs
			set(t, rdb, "loading-process-events-interval-bytes", "1024")
			slow := n.Options()
			slow.ReadTimeout = time.Minute
			go func() {
				c := redis.NewClient(slow)
				defer c.Close()
				done <- c.Do(t.Context(), "DEBUG", "RELOAD").Err()
			}()
			eventually(t, 10*time.Second, "it loads", func() bool {
				err := rdb.Get(t.Context(), "filler:1").Err()
				return err != nil && strings.HasPrefix(err.Error(), "LOADING")
			})
		},
		func() {
			_ = rdb.ConfigSet(t.Context(), "key-load-delay", "0").Err() // refused while it loads
			noErr(t, <-done)
			set(t, rdb, "key-load-delay", "0")
			noErr(t, rdb.Eval(t.Context(), "for i = 1, 4000 do redis.call('DEL', 'filler:' .. i) end return 1", nil).Err())
		},
	}
}
