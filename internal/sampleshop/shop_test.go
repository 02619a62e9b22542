package sampleshop

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

var (
	signingKey = []byte("signing-key-signing-key-signing!")
	sessionKey = []byte("session-key-session-key-session!")
)

func TestFiftyParallelPostsThroughTwoShopsMakeOneOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		a, urlA := start(t, options(rdb))
		b, urlB := start(t, options(rdb))
		ids := make([]string, 50)
		var wg sync.WaitGroup
		for i := range ids {
			req := forwarded(t, "POST", []string{urlA, urlB}[i%2]+"/buy/1001", "", buyHeaders("r-1"))
			wg.Go(func() {
				got, err := send(req)
				if err == nil && got.status == http.StatusSeeOther && got.header.Get("Location") == "/orders/"+got.header.Get("Weir-Order") {
					ids[i] = got.header.Get("Weir-Order")
				}
			})
		}
		wg.Wait()
		orders, err := a.Orders(t.Context())
		if err != nil || len(orders) != 1 {
			t.Fatalf("%d orders, %v", len(orders), err)
		}
		for _, id := range ids {
			if o := orders[id]; o.Reservation != "r-1" || o.Item != "1001" || o.Sale != "demo" || o.Quantity != 2 || o.User != "u-1" {
				t.Fatalf("order %q = %+v", id, o)
			}
		}
		if n := a.Seen()["r-1"] + b.Seen()["r-1"]; n != 50 {
			t.Errorf("%d POSTs seen", n)
		}
		if order, status := ask(t, urlB, "r-1"); order != ids[0] || status != http.StatusOK {
			t.Errorf("asked: %q, %d", order, status)
		}
		if order, status := ask(t, urlB, "r-2"); order != "" || status != http.StatusNotFound {
			t.Errorf("asked for another: %q, %d", order, status)
		}
	})
}

func TestNoOrderAfterTheDeadlineButARepeatGetsIts(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		shop, url := start(t, options(rdb))
		late := buyHeaders("r-late")
		late["Weir-Expires"] = time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
		if a := mustSend(t, forwarded(t, "POST", url+"/buy/1001", "", late)); a.status != http.StatusGone {
			t.Errorf("late: %d", a.status)
		}
		if a := buy(t, url, "r-late"); a.status != http.StatusGone {
			t.Errorf("after a 410 the key must stay refused: %d", a.status)
		}
		first := buy(t, url, "r-1")
		again := buyHeaders("r-1")
		again["Weir-Expires"] = late["Weir-Expires"]
		a := mustSend(t, forwarded(t, "POST", url+"/buy/1001", "", again))
		if a.status != http.StatusSeeOther || a.header.Get("Weir-Order") != first.header.Get("Weir-Order") {
			t.Errorf("a repeat after the deadline: %d %s", a.status, a.header.Get("Weir-Order"))
		}
		if orders, err := shop.Orders(t.Context()); err != nil || len(orders) != 1 {
			t.Errorf("orders: %v, %v", orders, err)
		}
	})
}

func TestABuyWithoutWeirsSignatureIsRefused(t *testing.T) {
	shop, url := memory(t, nil)
	sign := func() *http.Request { return forwarded(t, "POST", url+"/buy/1001", "a=1", buyHeaders("r-1")) }
	for name, change := range map[string]func(*http.Request){
		"missing":        func(r *http.Request) { r.Header.Del("Signature") },
		"another user":   func(r *http.Request) { r.Header.Set("Weir-User", "eve") },
		"another body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a=2")) },
		"another item":   func(r *http.Request) { r.URL.Path = "/buy/1002" },
		"a header added": func(r *http.Request) { r.Header.Set("Weir-Note", "x") },
	} {
		r := sign()
		change(r)
		if a := mustSend(t, r); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if orders, err := shop.Orders(t.Context()); err != nil || len(orders) != 0 {
		t.Errorf("orders: %v, %v", orders, err)
	}
	if a := mustSend(t, sign()); a.status != http.StatusSeeOther {
		t.Errorf("untouched: %d", a.status)
	}
}

func TestAnOldSignatureIsRefused(t *testing.T) {
	_, url := memory(t, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Minute) } })
	if a := buy(t, url, "r-1"); a.status != http.StatusUnauthorized {
		t.Errorf("status %d", a.status)
	}
	r, err := http.NewRequest("GET", url+"/orders?reservation=r-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := mustSend(t, r); a.status != http.StatusUnauthorized {
		t.Errorf("asking unsigned: %d", a.status)
	}
}

func TestABuyThatContradictsItselfIsRefused(t *testing.T) {
	shop, url := memory(t, nil)
	for name, value := range map[string][2]string{
		"item": {"Weir-Item", "1002"}, "reservation": {"Weir-Reservation", "r-2"}, "quantity": {"Weir-Quantity", "0"},
		"no number": {"Weir-Quantity", "two"}, "expires": {"Weir-Expires", "soon"},
	} {
		h := buyHeaders("r-1")
		h[value[0]] = value[1]
		if a := mustSend(t, forwarded(t, "POST", url+"/buy/1001", "", h)); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	a := mustSend(t, forwarded(t, "GET", url+"/orders?reservation=r-1", "", map[string]string{"Weir-Reservation": "r-2"}))
	if a.status != http.StatusBadRequest {
		t.Errorf("asking for one, signing another: %d", a.status)
	}
	if orders, err := shop.Orders(t.Context()); err != nil || len(orders) != 0 {
		t.Errorf("orders: %v, %v", orders, err)
	}
}

// TestAnItemThatIsNotSoldHereFreesItsUnit: any other status would leave the
// outcome open and the unit held.
func TestAnItemThatIsNotSoldHereFreesItsUnit(t *testing.T) {
	shop, url := memory(t, nil)
	h := buyHeaders("r-1")
	h["Weir-Item"] = "none"
	if a := mustSend(t, forwarded(t, "POST", url+"/buy/none", "", h)); a.status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", a.status)
	}
	if orders, err := shop.Orders(t.Context()); err != nil || len(orders) != 0 {
		t.Errorf("orders: %v, %v", orders, err)
	}
}

func TestOnlyTheOwnerSeesAnOrder(t *testing.T) {
	_, url := memory(t, nil)
	page := url + buy(t, url, "r-1").header.Get("Location")
	foreign, err := NewSession([]byte("another key"), "u-1", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*http.Cookie{
		"another visitor": session(t, "u-2", time.Hour), "an expired session": session(t, "u-1", -time.Hour),
		"a forged session": {Name: SessionCookie, Value: foreign}, "nonsense": {Name: SessionCookie, Value: "x"}, "nobody": {Name: "a", Value: "b"},
	} {
		if a := get(t, page, c); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a := get(t, page, session(t, "u-1", time.Hour)); a.status != http.StatusOK || !strings.Contains(a.body, "Order placed") || !strings.Contains(a.body, "Kettle × 2") {
		t.Errorf("owner: %d %s", a.status, a.body)
	}
}

func TestVisitorsAreSignedInOnce(t *testing.T) {
	shop, url := memory(t, nil)
	for _, path := range []string{"/", "/items/1001", "/sign-in?next=/items/1001"} {
		r, err := http.NewRequest("GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got := resp.Cookies()
		if len(got) != 1 || !got[0].HttpOnly || got[0].SameSite != http.SameSiteLaxMode || got[0].Secure {
			t.Fatalf("%s: cookies %v", path, got)
		}
		who := httptest.NewRequest("GET", "/", nil)
		who.AddCookie(got[0])
		if user := shop.user(who); len(user) < 20 {
			t.Errorf("%s: user %q", path, user)
		}
		if a := get(t, url+path, got[0]); a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: signed in twice", path)
		}
	}
	r, err := http.NewRequest("GET", url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-Proto", "https")
	if a := mustSend(t, r); !strings.Contains(a.header.Get("Set-Cookie"), "Secure") {
		t.Errorf("behind https: %s", a.header.Get("Set-Cookie"))
	}
}

func TestSignInLeadsToThisSiteOnly(t *testing.T) {
	for next, want := range map[string]string{
		"/_weir/sales/demo/page": "/_weir/sales/demo/page", "/items/1?a=b": "/items/1?a=b",
		"": "/", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/", "items": "/", "/\tx": "/", "javascript:x": "/",
	} {
		if got := localPath(next); got != want {
			t.Errorf("localPath(%q) = %q", next, got)
		}
	}
}

func TestPagesShowTheItemsAndStayStrict(t *testing.T) {
	_, url := memory(t, nil)
	if a := get(t, url+"/"); !strings.Contains(a.body, `href="/items/1001"`) || !strings.Contains(a.body, "&lt;b&gt;Cup") {
		t.Errorf("front: %s", a.body)
	}
	a := get(t, url+"/items/1001")
	for _, want := range []string{"Kettle", "€ 49.00", `href="/_weir/sales/demo/page"`, `data-sale="/_weir/sales/demo"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("item page lacks %q", want)
		}
	}
	if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(a.body, "style=") {
		t.Errorf("csp %q", csp)
	}
	if a := get(t, url+"/items/1002"); strings.Contains(a.body, "/_weir/") {
		t.Error("an item without a sale has a buy button")
	}
	for path, want := range map[string]int{"/items/none": 404, "/nothing": 404, "/assets/shop.css": 200, "/assets/shop.js": 200, "/assets/item.svg": 200, "/_switches": 404} {
		if a := get(t, url+path); a.status != want {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for name, change := range map[string]func(*Options){
		"no redis": func(o *Options) { o.Redis = nil }, "no signing key": func(o *Options) { o.SigningKey = nil },
		"no session key": func(o *Options) { o.SessionKey = nil }, "no key id": func(o *Options) { o.KeyID = "" },
		"bad item": func(o *Options) { o.Items[0].ID = "../x" }, "twice": func(o *Options) { o.Items[1].ID = "1001" },
	} {
		opt := options(rdb)
		change(&opt)
		if _, err := New(opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWithoutRedisTheOutcomeIsAnHonest500(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	_, url := start(t, options(rdb))
	m.SetError("LOADING not ready")
	if a := buy(t, url, "r-1"); a.status != http.StatusInternalServerError || a.header.Get("Weir-Order") != "" {
		t.Errorf("buy: %d", a.status)
	}
	if _, status := ask(t, url, "r-1"); status != http.StatusInternalServerError {
		t.Errorf("ask: %d", status)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	shop, err := New(options(rdb))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := shop.Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("err = %v", err)
	}
}

func key(i int) string { return "r-" + strconv.Itoa(i) }
