package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir/internal/sampleshop"
)

func TestABuyerOfALimitAboveOneOrdersAgainFromThePage(t *testing.T) {
	c := quiet(t, "memory")
	c.Sales[0].BuyerLimit = 2
	w := boot(t, c)
	b := &person{w: w, addr: "10.9.9.8", http: browser(t)}
	b.must("GET", "/", nil)
	for range 2 {
		page := string(b.must("GET", "/_weir/sales/demo/page", nil).body)
		if !strings.Contains(page, `id="ask"`) {
			t.Fatalf("the page offers no picture: %s", page)
		}
		shown := b.form("/_weir/challenges", url.Values{"sale": {"demo"}})
		next, err := url.Parse(shown.header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		id := next.Query().Get("challenge")
		if page := b.must("GET", next.String(), nil); !strings.Contains(string(page.body), id+"/image") {
			t.Fatalf("the page shows the picture: %s", page)
		}
		b.form("/_weir/challenges/"+id, url.Values{"answer": {answerOf(t, w, id)}})
		if r := b.form("/buy/1001", url.Values{}); r.status != http.StatusSeeOther {
			t.Fatalf("buying: %s", r)
		}
	}
	if l := w.invariant("demo"); l.Confirmed != 2 || len(w.orders()) != 2 {
		t.Errorf("two orders: %+v", l)
	}
}

func TestARefusalForPeopleShowsTheWayOn(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	out := &person{w: w, addr: "10.9.9.7", http: browser(t)}
	says := func(what string, r reply, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if r.status != status || !strings.Contains(string(r.body), want) {
				t.Errorf("%s lacks %q: %d %s", what, want, r.status, r.body)
			}
		}
	}
	const in = `href="/sign-in?next=%2F_weir%2Fsales%2Fdemo%2Fpage">Sign in</a>`
	says("an order, signed out", out.form("/buy/1001", url.Values{}), http.StatusUnauthorized, "Please sign in first", in)
	says("a picture, signed out", out.form("/_weir/challenges", url.Values{"sale": {"demo"}}), http.StatusUnauthorized, in)
	says("nowhere", out.form("/_weir/nothing", url.Values{}), http.StatusNotFound, "check the address", "Back to the shop")

	b := &person{w: w, addr: "10.9.9.8", http: browser(t)}
	b.must("GET", "/", nil)
	next, err := url.Parse(b.form("/_weir/challenges", url.Values{"sale": {"demo"}}).header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	id := next.Query().Get("challenge")
	b.form("/_weir/challenges/"+id, url.Values{"answer": {answerOf(t, w, id)}})
	w.p.shop.Set(sampleshop.Switches{HangUp: sampleshop.HangUpAfter})
	says("an order whose answer was lost", b.form("/buy/1001", url.Values{}), http.StatusBadGateway,
		`method="post" action="/buy/1001"`, "Ask again", "See your reservation", "you cannot buy twice")
}
