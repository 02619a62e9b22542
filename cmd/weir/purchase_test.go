package main

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/sampleshop"
)

func TestAPurchaseEndToEnd(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, quiet(t, mode))
		alice := w.person("alice")
		pass := alice.mustPass("demo")

		first := alice.buy(pass)
		if first.status != http.StatusSeeOther || !strings.HasPrefix(first.header.Get("Location"), "/orders/") {
			t.Fatalf("the shop's answer is a 303 to the order, got %s", first)
		}
		page := alice.must("GET", first.header.Get("Location"), nil)
		if page.status != http.StatusOK || !strings.Contains(string(page.body), "Enamel mug") {
			t.Fatalf("the order's page: %s", page)
		}
		if l := w.invariant("demo"); l.Free != 99 || l.Confirmed != 1 {
			t.Fatalf("one of 100 is sold, got %+v", l)
		}

		again := alice.buy(pass)
		if again.status != http.StatusOK || again.json()["state"] != "confirmed" {
			t.Fatalf("the same pass again answers from the ledger, got %s", again)
		}
		if len(w.orders()) != 1 || w.p.shop.Seen()[again.json()["id"].(string)] != 1 {
			t.Fatalf("one order, forwarded once: %v %v", w.orders(), w.p.shop.Seen())
		}
		if got := alice.must("GET", "/_weir/reservations/"+again.json()["id"].(string), nil); got.json()["state"] != "confirmed" {
			t.Fatalf("the reservation: %s", got)
		}
		w.invariant("demo")
	})
}

func TestTwoTabsWithOnePassForwardOnce(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, quiet(t, mode))
		w.p.shop.Set(sampleshop.Switches{Slow: 400 * time.Millisecond})
		alice := w.person("alice")
		pass := alice.mustPass("demo")
		var tabs sync.WaitGroup
		replies := make([]reply, 2)
		for i := range replies {
			tabs.Go(func() { replies[i] = alice.buy(pass) })
		}
		tabs.Wait()
		won, other := replies[0], replies[1]
		if won.status != http.StatusSeeOther {
			won, other = other, won
		}
		if won.status != http.StatusSeeOther || other.status != http.StatusConflict || other.code() != "in_progress" {
			t.Fatalf("one tab wins, the other is in progress: %s / %s", won, other)
		}
		if other.header.Get("Retry-After") == "" || !strings.HasPrefix(other.header.Get("Location"), "/_weir/reservations/") {
			t.Errorf("in_progress tells when and where to look: %v", other.header)
		}
		if len(w.orders()) != 1 {
			t.Errorf("orders: %v", w.orders())
		}
		w.invariant("demo")
	})
}

func TestAWrongAnswerBurnsTheChallenge(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, quiet(t, mode))
		alice := w.person("alice")
		id, answer, err := alice.challenge("demo")
		if err != nil {
			t.Fatal(err)
		}
		wrong := alice.must("POST", "/_weir/challenges/"+id, map[string]string{"answer": "x" + answer})
		if wrong.status != http.StatusForbidden || wrong.code() != "captcha_wrong" {
			t.Fatalf("wrong answer: %s", wrong)
		}
		fresh, _ := wrong.json()["challenge"].(map[string]any)
		if fresh["id"] == nil || fresh["id"] == id {
			t.Fatalf("a fresh challenge comes with the refusal: %s", wrong)
		}
		late := alice.must("POST", "/_weir/challenges/"+id, map[string]string{"answer": answer})
		if late.status != http.StatusGone || late.code() != "captcha_expired" {
			t.Fatalf("the right answer comes too late: %s", late)
		}
		w.invariant("demo")
	})
}

func TestAnothersPassIsRefused(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	pass := w.person("alice").mustPass("demo")
	if r := w.person("mallory").buy(pass); r.status != http.StatusForbidden || r.code() != "captcha_invalid" {
		t.Fatalf("another user's pass: %s", r)
	}
	if l := w.invariant("demo"); l.Free != 100 {
		t.Fatalf("nothing was taken: %+v", l)
	}
}

func TestThePassOfAReleasedReservationIsSpent(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, quiet(t, mode))
		w.p.shop.Set(sampleshop.Switches{Refuse: http.StatusPaymentRequired})
		alice := w.person("alice")
		pass := alice.mustPass("demo")
		if r := alice.buy(pass); r.status != http.StatusPaymentRequired {
			t.Fatalf("the shop's refusal is passed on: %s", r)
		}
		if l := w.invariant("demo"); l.Free != 100 {
			t.Fatalf("a definite refusal gives the unit back: %+v", l)
		}
		w.p.shop.Set(sampleshop.Switches{})
		if r := alice.buy(pass); r.status != http.StatusConflict || r.code() != "pass_spent" {
			t.Fatalf("its pass is spent: %s", r)
		}
		if r := alice.buy(alice.mustPass("demo")); r.status != http.StatusSeeOther {
			t.Fatalf("a new solve orders again: %s", r)
		}
		w.invariant("demo")
	})
}

func TestBuyingWithoutJavaScript(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		w := boot(t, quiet(t, mode))
		// A browser: it starts at the shop, which signs it in, and keeps cookies.
		b := &person{w: w, addr: "10.9.9.9", http: browser(t)}
		if r := b.must("GET", "/", nil); r.status != http.StatusOK {
			t.Fatalf("the shop's page: %s", r)
		}
		page := b.must("GET", "/_weir/sales/demo/page", nil)
		if page.status != http.StatusOK || !strings.Contains(string(page.body), "/_weir/challenges") {
			t.Fatalf("the buyer's page: %s", page)
		}
		shown := b.form("/_weir/challenges", url.Values{"sale": {"demo"}})
		next, err := url.Parse(shown.header.Get("Location"))
		if shown.status != http.StatusSeeOther || err != nil {
			t.Fatalf("challenge by form: %s %v", shown, err)
		}
		id := next.Query().Get("challenge")
		if r := b.must("GET", next.String(), nil); !strings.Contains(string(r.body), id+"/image") {
			t.Fatalf("the page shows the picture: %s", r)
		}
		if r := b.must("GET", "/_weir/challenges/"+id+"/image", nil); !strings.HasPrefix(string(r.body), "\x89PNG") {
			t.Fatalf("the picture: %s", r)
		}
		answer := answerOf(t, w, id)
		solved := b.form("/_weir/challenges/"+id, url.Values{"answer": {answer}})
		if solved.status != http.StatusSeeOther || !strings.Contains(solved.header.Get("Set-Cookie"), "weir_pass_demo") {
			t.Fatalf("solving by form: %s %v", solved, solved.header)
		}
		bought := b.form("/buy/1001", url.Values{})
		if bought.status != http.StatusSeeOther || !strings.HasPrefix(bought.header.Get("Location"), "/orders/") {
			t.Fatalf("buying by form: %s", bought)
		}
		if r := b.must("GET", bought.header.Get("Location"), nil); r.status != http.StatusOK {
			t.Fatalf("the order's page: %s", r)
		}
		w.invariant("demo")
	})
}

func TestChallengeAndAnswerInTheBuyRequestItself(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	alice := w.person("alice")
	id, answer, err := alice.challenge("demo")
	if err != nil {
		t.Fatal(err)
	}
	r := alice.must("POST", "/buy/1001", map[string]any{"challenge": id, "answer": answer, "quantity": 1})
	if r.status != http.StatusSeeOther || r.header.Get("Weir-Pass") == "" {
		t.Fatalf("bought in one request, the pass for a retry beside it: %s %v", r, r.header)
	}
	w.invariant("demo")
}

func TestTwoReplicasBehaveAsOne(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		c := quiet(t, mode)
		one := boot(t, c)
		two := boot(t, c) // the same folder: attached
		t.Cleanup(two.stop)

		alice := one.person("alice")
		pass := alice.mustPass("demo")
		alice.w = two
		if r := alice.buy(pass); r.status != http.StatusSeeOther {
			t.Fatalf("a pass solved on one is accepted on the other: %s", r)
		}
		alice.w = one
		if r := alice.buy(pass); r.status != http.StatusOK || r.json()["state"] != "confirmed" {
			t.Fatalf("and the first knows the order: %s", r)
		}
		if l := one.invariant("demo"); l.Free != 99 {
			t.Fatalf("one stock: %+v", l)
		}

		bob := two.person("bob")
		if r := one.op("POST", "/api/v1/bans", map[string]any{"scope": "user", "value": "bob", "reason": "test", "for": "1h"}); r.status != http.StatusCreated {
			t.Fatalf("ban: %s", r)
		}
		eventually(t, 2*time.Second, "a ban on one acts on the other", func() bool {
			return bob.must("POST", "/_weir/challenges", map[string]string{"sale": "demo"}).code() == "blacklisted"
		})
		if r := one.op("DELETE", "/api/v1/bans?scope=user&value=bob", nil); r.status != http.StatusOK {
			t.Fatalf("unban: %s", r)
		}
		eventually(t, 2*time.Second, "an unban too", func() bool {
			return bob.must("POST", "/_weir/challenges", map[string]string{"sale": "demo"}).status == http.StatusCreated
		})
	})
}

func TestHealthAndMetricsArePrivate(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	alice := w.person("alice")
	alice.buy(alice.mustPass("demo"))
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if r := w.op("GET", path, nil); r.status != http.StatusOK {
			t.Errorf("private %s: %s", path, r)
		}
		public := alice.must("GET", path, nil)
		if strings.Contains(string(public.body), "weir_") || strings.Contains(string(public.body), `"status":"ok"`) {
			t.Errorf("public %s shows it: %s", path, public)
		}
	}
	metrics := string(w.op("GET", "/metrics", nil).body)
	for _, want := range []string{`weir_requests_total{outcome="forwarded",route="buy"} 1`, `weir_stock_units{sale="demo",state="confirmed"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestTheBannerNamesEverything(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	var out strings.Builder
	w.p.banner(&out)
	for _, want := range []string{w.url, w.admin, "memory", "NOTHING SURVIVES", w.p.madeToken, "demo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the banner lacks %q:\n%s", want, out.String())
		}
	}
}
