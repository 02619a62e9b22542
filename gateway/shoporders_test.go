package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/httpsig"
	"weir/internal/sampleshop"
	"weir/inventory"
)

var ordersKey = []byte("shop-key-shop-key-shop-key-shop!")

// ordersOf are the orders of the shop at an address.
func ordersOf(t *testing.T, at string, change func(*UpstreamConfig)) *ShopOrders {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	cfg := UpstreamConfig{
		URL: u, Timeout: 2 * time.Second, ConnectTimeout: time.Second, IdleTimeout: time.Second, MaxConnections: 8, ResponseLimit: 1 << 20,
		Lookup: "/orders?reservation={id}", Orders: "/orders?sale={sale}", KeyID: "shop",
	}
	if change != nil {
		change(&cfg)
	}
	return newShopOrders(newShop(cfg, ordersKey, time.Now))
}

// shopSaying answers every page by say.
func shopSaying(t *testing.T, say http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(say)
	t.Cleanup(srv.Close)
	return srv.URL
}

// collect lists the orders of sale demo.
func collect(t *testing.T, o *ShopOrders) (all []inventory.ShopOrder, err error) {
	t.Helper()
	err = o.Each(t.Context(), "demo", func(order inventory.ShopOrder) error {
		all = append(all, order)
		return nil
	})
	return all, err
}

const oneOrder = `{"reservation":"r","order":"S-1","user":"ann","quantity":2,"state":"paid","more":[1]}`

func TestShopOrdersReadsArraysAndLines(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"array": {"[" + oneOrder + ",\n" + oneOrder + "]", 2}, "lines": {oneOrder + "\n" + oneOrder + "\n", 2}, "one": {" " + oneOrder, 1},
		"empty array": {"[ ]\n", 0}, "empty": {"", 0},
	} {
		at := shopSaying(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.body) })
		all, err := collect(t, ordersOf(t, at, nil))
		if err != nil || len(all) != c.want || c.want > 0 && all[0] != (inventory.ShopOrder{Reservation: "r", Order: "S-1", User: "ann", Quantity: 2, State: "paid"}) {
			t.Errorf("%s: %+v %v", name, all, err)
		}
	}
}

func TestShopOrdersIsSignedAndTurnsPages(t *testing.T) {
	asked := []string{}
	at := shopSaying(t, func(w http.ResponseWriter, r *http.Request) {
		keys := func(id string) ([]byte, bool) { return ordersKey, id == "shop" }
		if err := httpsig.VerifyRequest(keys, time.Now(), time.Minute, r, nil); err != nil || r.Header.Get("Weir-Sale") != "demo" {
			t.Errorf("%s: %v", r.URL, err)
		}
		asked = append(asked, r.URL.RequestURI())
		switch len(asked) {
		case 1:
			w.Header().Add("Link", `</first>; rel="first", <?sale=demo&page=2>; title="a, b"; rel="last next"`)
		case 2:
			w.Header().Add("Link", `</first>; rel=prev`)
			w.Header().Add("Link", `<http://`+r.Host+`/third>; rel=next`)
		}
		fmt.Fprint(w, "["+oneOrder+"]")
	})
	all, err := collect(t, ordersOf(t, at, nil))
	if err != nil || len(all) != 3 || !slices.Equal(asked, []string{"/orders?sale=demo", "/orders?sale=demo&page=2", "/third"}) {
		t.Fatalf("%d orders, %v, %v", len(all), asked, err)
	}
}

func TestShopOrdersAsksAfterTheLastOne(t *testing.T) {
	asked := []string{}
	at := shopSaying(t, func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.URL.Query().Get("after")); len(asked) < 3 {
			fmt.Fprint(w, strings.ReplaceAll(oneOrder, "S-1", fmt.Sprint("S &", len(asked))))
		}
	})
	all, err := collect(t, ordersOf(t, at, func(c *UpstreamConfig) { c.Orders = "/orders?sale={sale}&after={after}" }))
	if err != nil || len(all) != 2 || !slices.Equal(asked, []string{"", "S &1", "S &2"}) {
		t.Fatalf("%d orders, %q, %v", len(all), asked, err)
	}
}

func TestShopOrdersRefusesWhatIsNoList(t *testing.T) {
	swap := func(old, now string) string { return "[" + strings.Replace(oneOrder, old, now, 1) + "]" }
	for name, body := range map[string]string{
		"html": "<html>", "an object of another kind": `{"error":"x"}`, "null": "[null]", "no end": "[" + oneOrder, "half": "[" + oneOrder[:20],
		"two lists": "[" + oneOrder + "][]", "something behind": oneOrder + "\nx", "a number": "[1]", "state": swap("paid", "sold"), "no state": swap(`,"state":"paid"`, ""),
		"quantity zero": swap(":2", ":0"), "part of one": swap(":2", ":1.5"), "too large": swap(":2", ":9223372036854775808"), "text as quantity": swap(":2", `:"2"`),
		"a long text": swap("ann", strings.Repeat("a", ordersText+1)), "a reservation that is a number": swap(`"r"`, "7"),
	} {
		at := shopSaying(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if all, err := collect(t, ordersOf(t, at, nil)); err == nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestShopOrdersRefusesPagesThatLeadAwayOrNowhere(t *testing.T) {
	for name, link := range map[string]string{
		"another host": "<http://192.0.2.1/x>; rel=next", "another scheme": "<https://{host}/x>; rel=next", "a host by slashes": "<//192.0.2.1/x>; rel=next",
		"a user": "<http://u@{host}/x>; rel=next", "itself": "</orders?sale=demo>; rel=next", "nonsense": "<http://[>; rel=next", "too long": "</" + strings.Repeat("x", ordersURI) + ">; rel=next",
	} {
		at := shopSaying(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", strings.ReplaceAll(link, "{host}", r.Host))
		})
		if _, err := collect(t, ordersOf(t, at, nil)); err == nil {
			t.Errorf("%s was followed", name)
		}
	}
}

func TestShopOrdersBoundsSizesAndStatuses(t *testing.T) {
	for name, say := range map[string]http.HandlerFunc{
		"401":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "[]", 401) },
		"moved": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/x"); w.WriteHeader(302) },
		"none":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"packed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "[]")
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			for range ordersPage/1024 + 1 {
				fmt.Fprint(w, strings.Repeat(" ", 1024))
			}
		},
	} {
		if _, err := collect(t, ordersOf(t, shopSaying(t, say), nil)); err == nil {
			t.Errorf("%s was taken for a list", name)
		}
	}
}

// rawShop answers each connection with a text and hangs up, or, with hang, waits.
func rawShop(t *testing.T, text string, hang bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { close(done); ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				fmt.Fprint(c, text)
			}
			if hang {
				<-done
			}
			c.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

func TestShopOrdersNeverTakesHalfAListForAWhole(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	lines := oneOrder + "\n"
	for name, text := range map[string]string{
		"no answer": "", "by length": head + fmt.Sprintf("Content-Length: %d\r\n\r\n", 2*len(lines)) + lines,
		"by chunks":         head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(lines), lines),
		"by the connection": head + "Connection: close\r\n\r\n" + lines,
	} {
		if _, err := collect(t, ordersOf(t, rawShop(t, text, false), nil)); err == nil {
			t.Errorf("%s: half a list was taken for a whole one", name)
		}
	}
	whole := head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(lines)) + lines
	if all, err := collect(t, ordersOf(t, rawShop(t, whole, false), nil)); err != nil || len(all) != 1 {
		t.Errorf("whole: %+v %v", all, err)
	}
}

func TestShopOrdersWaitsOnlySoLong(t *testing.T) {
	for _, text := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"} {
		o := ordersOf(t, rawShop(t, text, true), nil)
		o.within = 100 * time.Millisecond
		began := time.Now()
		if _, err := collect(t, o); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%q: %v after %v", text, err, time.Since(began))
		}
		o.within = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := o.Each(ctx, "demo", func(inventory.ShopOrder) error { return nil }); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%q: %v after %v", text, err, time.Since(began))
		}
		cancel()
	}
}

func TestShopOrdersStopsWithItsReader(t *testing.T) {
	at := shopSaying(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, oneOrder) })
	enough := errors.New("enough")
	if err := ordersOf(t, at, nil).Each(t.Context(), "demo", func(inventory.ShopOrder) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestShopOrdersSaysWhatTheShopCannot(t *testing.T) {
	o := ordersOf(t, "http://127.0.0.1:1", func(c *UpstreamConfig) { c.Lookup, c.Orders = "", "" })
	if _, err := collect(t, o); !errors.Is(err, inventory.ErrNoList) {
		t.Error(err)
	}
	if _, _, err := o.Lookup(t.Context(), inventory.Reservation{ID: "r"}); !errors.Is(err, inventory.ErrNoLookup) {
		t.Error(err)
	}
	o = ordersOf(t, "http://127.0.0.1:1", nil) // nobody listens
	if _, err := collect(t, o); err == nil || errors.Is(err, inventory.ErrNoList) {
		t.Error(err)
	}
	if _, _, err := o.Lookup(t.Context(), inventory.Reservation{ID: "r"}); err == nil || errors.Is(err, inventory.ErrNoLookup) {
		t.Error(err)
	}
}

func TestTheLookupTellsMoreWhenTheShopDoes(t *testing.T) {
	r := inventory.Reservation{ID: "r", Sale: "demo", Item: "1001"}
	yes := inventory.ShopOrder{Reservation: "r", Order: "S-1"}
	full := inventory.ShopOrder{Reservation: "r", Order: "S-1", User: "ann", Quantity: 2, State: "paid"}
	for name, c := range map[string]struct {
		status       int
		header, body string
		want         inventory.ShopOrder
		has, fails   bool
	}{
		"yes": {200, "S-1", "", yes, true, false}, "yes, with a page": {200, "S-1", "<html>", yes, true, false}, "all of it": {200, "S-1", oneOrder, full, true, false},
		"all of it in the body": {200, "", oneOrder, full, true, false}, "cancelled": {200, "S-1", strings.Replace(oneOrder, "paid", "cancelled", 1), inventory.ShopOrder{}, false, false},
		"another": {200, "S-1", strings.Replace(oneOrder, `"r"`, `"q"`, 1), inventory.ShopOrder{}, false, true}, "no": {404, "", oneOrder, inventory.ShopOrder{}, false, false},
		"cannot say": {503, "", "", inventory.ShopOrder{}, false, true},
	} {
		at := shopSaying(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Weir-Order", c.header)
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		got, has, err := ordersOf(t, at, nil).Lookup(t.Context(), r)
		if got != c.want || has != c.has || (err != nil) != c.fails {
			t.Errorf("%s: %+v %v %v", name, got, has, err)
		}
	}
}

// sampleAt serves the sample shop on a port of its own, with n orders of sale demo.
func sampleAt(t *testing.T, n int) (*sampleshop.Shop, string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	shop, err := sampleshop.New(sampleshop.Options{
		Redis: rdb, SigningKey: ordersKey, KeyID: "shop", SessionKey: ordersKey, Items: []sampleshop.Item{{ID: "1001", Name: "Kettle", Sale: "demo"}},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(shop.Handler())
	t.Cleanup(srv.Close)
	for i := range n {
		id := fmt.Sprint("r-", i)
		m := httpsig.Message{Method: "POST", Path: "/buy/1001", Header: map[string]string{
			"content-digest": httpsig.Digest(nil), "idempotency-key": id, "weir-reservation": id, "weir-sale": "demo", "weir-item": "1001", "weir-quantity": "1", "weir-user": "ann",
		}}
		r, err := http.NewRequest("POST", srv.URL+"/buy/1001", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range m.Header {
			r.Header.Set(name, value)
		}
		input, sig := httpsig.Sign(ordersKey, "shop", time.Now(), m)
		r.Header.Set("Signature-Input", input)
		r.Header.Set("Signature", sig)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusSeeOther {
			t.Fatalf("%v %v", resp, err)
		}
		resp.Body.Close()
	}
	return shop, srv.URL
}

func TestShopOrdersUnderstandsTheSampleShop(t *testing.T) {
	const n = 450
	shop, at := sampleAt(t, n)
	o := ordersOf(t, at, nil)
	all, err := collect(t, o)
	if err != nil || len(all) != n || all[n-1].Reservation != fmt.Sprint("r-", n-1) || all[0].State != inventory.OrderPlaced || all[0].User != "ann" {
		t.Fatalf("%d orders, %v", len(all), err)
	}
	for i, state := range []string{sampleshop.Paid, sampleshop.Cancelled} {
		if err := shop.Mark(t.Context(), all[i].Order, state); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{true, false, true} {
		order, has, err := o.Lookup(t.Context(), inventory.Reservation{ID: all[i].Reservation, Sale: "demo", Item: "1001"})
		if err != nil || has != want || i == 0 && (order.State != inventory.OrderPaid || order.Quantity != 1) {
			t.Errorf("%d: %+v %v %v", i, order, has, err)
		}
	}
	if all, err = collect(t, o); err != nil || all[0].State != inventory.OrderPaid || all[1].State != inventory.OrderCancelled {
		t.Fatalf("%+v, %v", all[:2], err)
	}
	o.shop.key = []byte("another key another key another!")
	if _, err := collect(t, o); err == nil {
		t.Error("an unsigned list")
	}
}
