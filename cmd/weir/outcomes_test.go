package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/captcha"
	"weir/internal/sampleshop"
)

// scenario provokes one outcome of the table on a program of its own.
type scenario struct {
	code   string // the problem's code; "" for the shop's own answer
	status int
	// retry and location say that the answer must carry Retry-After, Location.
	retry, location bool
	noBooks         bool // the books are gone on purpose
	change          func(*Config)
	act             func(*world) reply
}

// oneUnit is a sale of a single unit, for what happens at the end of stock.
func oneUnit(c *Config) { c.Sales[0].Total = 1 }

func TestEachOutcomeHasItsStatusCodeAndHeaders(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			c := quiet(t, "memory")
			if s.change != nil {
				s.change(&c)
			}
			w := boot(t, c)
			r := s.act(w)
			if r.status != s.status || r.code() != s.code {
				t.Fatalf("want %d %s, got %s", s.status, s.code, r)
			}
			if s.code != "" {
				checkProblem(t, r)
			}
			if got := r.header.Get("Retry-After") != ""; got != s.retry {
				t.Errorf("Retry-After: want %v, got %q", s.retry, r.header.Get("Retry-After"))
			}
			if got := r.header.Get("Location") != ""; got != s.location {
				t.Errorf("Location: want %v, got %q", s.location, r.header.Get("Location"))
			}
			for _, sale := range c.Sales {
				if sale.Preheat == "at_start" && !s.noBooks {
					w.invariant(sale.ID)
				}
			}
		})
	}
}

// checkProblem holds a refusal against RFC 9457 and the contract.
func checkProblem(t *testing.T, r reply) {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := r.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	p := r.json()
	if p["title"] == "" || p["type"] == "" || p["status"] != float64(r.status) || p["request_id"] != r.header.Get("X-Request-Id") || p["request_id"] == "" {
		t.Errorf("members: %v", p)
	}
}

func ban(w *world, scope, value string) {
	if r := w.op("POST", "/api/v1/bans", map[string]any{"scope": scope, "value": value, "reason": "test", "for": "1h"}); r.status != http.StatusCreated {
		w.t.Fatalf("ban: %s", r)
	}
}

// buyAs signs somebody in, solves and buys.
func buyAs(w *world, user string) reply {
	p := w.person(user)
	return p.buy(p.mustPass("demo"))
}

// shopDoes lets the shop misbehave and buys once.
func shopDoes(s sampleshop.Switches) func(*world) reply {
	return func(w *world) reply {
		w.p.shop.Set(s)
		return buyAs(w, "alice")
	}
}

func scenarios() map[string]scenario {
	all := map[string]scenario{}
	for _, group := range []map[string]scenario{callerScenarios(), saleScenarios(), passScenarios(), stockScenarios(), shopScenarios()} {
		for name, s := range group {
			all[name] = s
		}
	}
	return all
}

func callerScenarios() map[string]scenario {
	get := func(path string, edits ...func(*http.Request)) func(*world) reply {
		return func(w *world) reply { return w.person("alice").must("GET", path, nil, edits...) }
	}
	return map[string]scenario{
		"bad path":       {code: "bad_request", status: 400, act: get("/a//b")},
		"unknown path":   {code: "not_found", status: 404, act: get("/_weir/nothing")},
		"wrong method":   {code: "method", status: 405, act: get("/buy/1001")},
		"bad item":       {code: "bad_request", status: 400, act: func(w *world) reply { return w.person("alice").must("POST", "/buy/-1", nil) }},
		"unknown item":   {code: "not_found", status: 404, act: func(w *world) reply { return w.person("alice").must("POST", "/buy/9", nil) }},
		"not signed in":  {code: "user_required", status: 401, act: func(w *world) reply { p := w.person("a"); p.session = ""; return p.must("POST", "/buy/1001", nil) }},
		"forged session": {code: "user_required", status: 401, act: func(w *world) reply { p := w.person("a"); p.session += "x"; return p.must("POST", "/buy/1001", nil) }},
		"banned user":    {code: "blacklisted", status: 403, act: func(w *world) reply { ban(w, "user", "alice"); return buyAttempt(w, "alice") }},
		"banned address": {code: "blacklisted", status: 403, act: func(w *world) reply {
			p := w.person("alice")
			ban(w, "addr", p.addr)
			return p.must("POST", "/buy/1001", nil)
		}},
		"banned network": {code: "blacklisted", status: 403, act: func(w *world) reply { ban(w, "cidr", "10.0.0.0/8"); return buyAttempt(w, "alice") }},
		"other site": {code: "cross_site", status: 403, act: func(w *world) reply {
			return w.person("alice").must("POST", "/buy/1001", nil, withHeader("Sec-Fetch-Site", "cross-site"))
		}},
		"other origin": {code: "cross_site", status: 403, act: func(w *world) reply {
			return w.person("alice").must("POST", "/buy/1001", nil, withHeader("Origin", "https://evil.example"))
		}},
		"too often": {code: "rate_limited", status: 429, retry: true, change: func(c *Config) { c.Limits.User = slowly(Default().Limits.User) }, act: func(w *world) (r reply) {
			p := w.person("alice")
			for range 3 {
				r = p.must("POST", "/buy/1001", nil)
			}
			return r
		}},
		"too much for one item": {code: "rate_limited", status: 429, retry: true, change: func(c *Config) {
			c.Limits.Item = SharedLimit{Rate: 1, Per: time.Hour, Burst: 1, Concurrency: 8, Scope: "cluster", Size: 8, Mode: "enforce"}
		}, act: func(w *world) reply { buyAs(w, "alice"); return buyAs(w, "bob") }},
		"too much for the shop": {code: "overloaded", status: 503, retry: true, change: func(c *Config) {
			c.Limits.Upstream = SharedLimit{Rate: 1, Per: time.Hour, Burst: 1, Concurrency: 8, Scope: "cluster", Size: 8, Mode: "enforce"}
		}, act: func(w *world) reply { buyAs(w, "alice"); return buyAs(w, "bob") }},
	}
}

// slowly is the limit with its events an hour apart, so that a slow machine gives none
// back in the middle of a test.
func slowly(l OwnLimit) OwnLimit {
	l.Per = time.Hour
	return l
}

func buyAttempt(w *world, user string) reply { return w.person(user).must("POST", "/buy/1001", nil) }

func saleScenarios() map[string]scenario {
	attempt := func(w *world) reply { return buyAttempt(w, "alice") }
	return map[string]scenario{
		"before the start": {code: "sale_not_started", status: 409, retry: true, change: func(c *Config) {
			c.Sales[0].StartsAt = SaleTime{At: time.Now().Add(time.Hour)}
		}, act: attempt},
		"after the end": {code: "sale_ended", status: 410, change: func(c *Config) { c.Sales[0].EndsAt = SaleTime{After: time.Second} }, act: func(w *world) (r reply) {
			eventually(w.t, 5*time.Second, "the sale ends", func() bool { r = attempt(w); return r.code() == "sale_ended" })
			return r
		}},
		"paused": {code: "sale_paused", status: 503, retry: true, act: func(w *world) reply {
			w.op("POST", "/api/v1/sales/demo/pause", nil)
			return attempt(w)
		}},
		"cancelled": {code: "sale_ended", status: 410, act: func(w *world) reply {
			w.op("POST", "/api/v1/sales/demo/cancel", nil)
			return attempt(w)
		}},
		"not preheated": {code: "not_on_sale", status: 409, retry: true, change: func(c *Config) { c.Sales[0].Preheat = "by_hand" }, act: attempt},
	}
}

func passScenarios() map[string]scenario {
	return map[string]scenario{
		"no pass":     {code: "captcha_required", status: 403, act: func(w *world) reply { return buyAttempt(w, "alice") }},
		"forged pass": {code: "captcha_invalid", status: 403, act: func(w *world) reply { return w.person("alice").buy("bm9wZQ") }},
		"another's pass": {code: "captcha_invalid", status: 403, act: func(w *world) reply {
			return w.person("mallory").buy(w.person("alice").mustPass("demo"))
		}},
		"wrong answer": {code: "captcha_wrong", status: 403, act: func(w *world) reply {
			p := w.person("alice")
			id, _, err := p.challenge("demo")
			if err != nil {
				w.t.Fatal(err)
			}
			return p.must("POST", "/_weir/challenges/"+id, map[string]string{"answer": "nope"})
		}},
		"burned challenge": {code: "captcha_expired", status: 410, act: func(w *world) reply {
			p := w.person("alice")
			id, answer, err := p.challenge("demo")
			if err != nil {
				w.t.Fatal(err)
			}
			p.must("POST", "/_weir/challenges/"+id, map[string]string{"answer": "nope"})
			return p.must("POST", "/_weir/challenges/"+id, map[string]string{"answer": answer})
		}},
		"another's challenge": {code: "not_found", status: 404, act: func(w *world) reply {
			id, answer, err := w.person("alice").challenge("demo")
			if err != nil {
				w.t.Fatal(err)
			}
			return w.person("mallory").must("POST", "/_weir/challenges/"+id, map[string]string{"answer": answer})
		}},
		"bad quantity": {code: "bad_request", status: 400, act: func(w *world) reply {
			p := w.person("alice")
			return p.must("POST", "/buy/1001", map[string]any{"quantity": 1.5}, withPass(p.mustPass("demo")))
		}},
		"too large a quantity": {code: "bad_request", status: 400, act: func(w *world) reply {
			p := w.person("alice")
			return p.must("POST", "/buy/1001", map[string]any{"quantity": 600}, withPass(p.mustPass("demo")))
		}},
		"pass used too often": {code: "rate_limited", status: 429, retry: true, change: func(c *Config) { c.Limits.Pass = slowly(Default().Limits.Pass) }, act: func(w *world) (r reply) {
			p := w.person("alice")
			pass := p.mustPass("demo")
			for range 4 {
				r = p.buy(pass)
			}
			return r
		}},
	}
}

func stockScenarios() map[string]scenario {
	return map[string]scenario{
		"sold out": {code: "sold_out", status: 409, change: oneUnit, act: func(w *world) reply {
			bob := w.person("bob")
			pass := bob.mustPass("demo")
			buyAs(w, "alice")
			return bob.buy(pass)
		}},
		"sold out, but the winner is told": {code: "sold_out", status: 409, location: true, change: oneUnit, act: func(w *world) reply {
			p := w.person("alice")
			pass := p.mustPass("demo")
			p.buy(pass)
			if err := w.p.stock.Refresh(context.Background()); err != nil {
				w.t.Fatal(err)
			}
			return p.buy(pass)
		}},
		"none free now": {code: "none_free_now", status: 409, retry: true, change: oneUnit, act: func(w *world) reply {
			w.p.shop.Set(sampleshop.Switches{HangUp: sampleshop.HangUpBefore})
			buyAs(w, "alice")
			return buyAs(w, "bob")
		}},
		"not enough": {code: "not_enough", status: 409, change: func(c *Config) {
			c.Sales[0].Total, c.Sales[0].MaxQuantity, c.Sales[0].BuyerLimit = 3, 2, 4
		}, act: func(w *world) reply {
			two := map[string]any{"quantity": 2}
			a, b := w.person("alice"), w.person("bob")
			a.must("POST", "/buy/1001", two, withPass(a.mustPass("demo")))
			return b.must("POST", "/buy/1001", two, withPass(b.mustPass("demo")))
		}},
		"buyer's limit": {code: "purchase_limit", status: 409, act: func(w *world) reply {
			p := w.person("alice")
			p.buy(p.mustPass("demo"))
			return p.buy(freshPass(w, "alice"))
		}},
		"other order with one pass": {code: "order_mismatch", status: 422, change: func(c *Config) { c.Sales[0].MaxQuantity, c.Sales[0].BuyerLimit = 2, 4 }, act: func(w *world) reply {
			p := w.person("alice")
			pass := p.mustPass("demo")
			p.must("POST", "/buy/1001", map[string]any{"quantity": 1}, withPass(pass))
			return p.must("POST", "/buy/1001", map[string]any{"quantity": 2}, withPass(pass))
		}},
		"stock lost its keys": {noBooks: true, code: "not_on_sale", status: 409, retry: true, act: func(w *world) reply {
			p := w.person("alice")
			pass := p.mustPass("demo")
			loseBucket(w)
			r := p.buy(pass)
			return r
		}},
	}
}

func shopScenarios() map[string]scenario {
	return map[string]scenario{
		"sold":                    {status: 303, location: true, act: shopDoes(sampleshop.Switches{})},
		"refused 402":             {status: 402, act: shopDoes(sampleshop.Switches{Refuse: 402})},
		"refused 410":             {status: 410, act: shopDoes(sampleshop.Switches{Refuse: 410})},
		"refused 422":             {status: 422, act: shopDoes(sampleshop.Switches{Refuse: 422})},
		"refused by header":       {status: 400, act: shopDoes(sampleshop.Switches{Refuse: 400, Settle: "release"})},
		"unclear 409":             {code: "upstream_unknown", status: 502, retry: true, location: true, act: shopDoes(sampleshop.Switches{Refuse: 409})},
		"unclear 500":             {code: "upstream_unknown", status: 502, retry: true, location: true, act: shopDoes(sampleshop.Switches{Refuse: 500})},
		"hangs up after reading":  {code: "upstream_unknown", status: 502, retry: true, location: true, act: shopDoes(sampleshop.Switches{HangUp: sampleshop.HangUpAfter})},
		"hangs up without a word": {code: "upstream_unknown", status: 502, retry: true, location: true, act: shopDoes(sampleshop.Switches{HangUp: sampleshop.HangUpBefore})},
		"slower than the time allowed": {code: "upstream_unknown", status: 504, retry: true, location: true, change: func(c *Config) {
			c.Upstream.Timeout, c.Upstream.ConnectTimeout = 150*time.Millisecond, 100*time.Millisecond
		}, act: shopDoes(sampleshop.Switches{Slow: time.Second})},
		"not there":             {code: "upstream_failed", status: 502, retry: true, change: noShop, act: func(w *world) reply { return buyAs(w, "alice") }},
		"not there, for a page": {code: "upstream_failed", status: 502, retry: true, change: noShop, act: func(w *world) reply { return w.person("alice").must("GET", "/", nil) }},
		"known and confirmed": {status: 200, act: func(w *world) reply {
			p := w.person("alice")
			pass := p.mustPass("demo")
			p.buy(pass)
			return p.buy(pass)
		}},
		"captcha's Redis is gone": {noBooks: true, code: "captcha_unavailable", status: 503, retry: true, act: func(w *world) reply {
			p := w.person("alice")
			if err := w.p.redis.stock.Close(); err != nil {
				w.t.Fatal(err)
			}
			r := p.must("POST", "/_weir/challenges", map[string]string{"sale": "demo"})
			return r
		}},
	}
}

// freshPass is a pass with an order id of its own, as if the user's first
// were gone.
func freshPass(w *world, user string) string {
	p := w.person(user)
	ctx := context.Background()
	token := p.mustPass("demo")
	held, err := w.p.captcha.Verify(token)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.p.captcha.Forget(ctx, captcha.Pass(held)); err != nil {
		w.t.Fatal(err)
	}
	return p.mustPass("demo")
}

// loseBucket deletes the sale's stock, as a Redis that forgot would.
func loseBucket(w *world) {
	ctx := context.Background()
	keys, err := w.p.redis.stock.Keys(ctx, "*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range keys {
		if strings.Contains(k, "head") || strings.Contains(k, "ledger") {
			w.p.redis.stock.Del(ctx, k)
		}
	}
}

// noShop names a shop at a port where nobody listens.
func noShop(c *Config) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	c.Upstream.URL = "http://" + l.Addr().String()
}
