package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
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
