package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// scripted is a shop whose answers a test writes byte by byte. It remembers
// what it was asked.
type scripted struct {
	ln     net.Listener
	answer func(req *http.Request, conn net.Conn)

	mu   sync.Mutex
	seen []*http.Request
	body map[*http.Request]string
}

func newScripted(t *testing.T, answer func(*http.Request, net.Conn)) *scripted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{ln: ln, answer: answer, body: map[*http.Request]string{}}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *scripted) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		s.mu.Lock()
		s.seen, s.body[req] = append(s.seen, req), string(body)
		s.mu.Unlock()
		s.answer(req, conn)
		if req.Close {
			return
		}
	}
}

// asked are the requests whose path begins so.
func (s *scripted) asked(path string) (found []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.HasPrefix(r.URL.Path, path) {
			found = append(found, r)
		}
	}
	return found
}

func (s *scripted) use(c *Config) { c.Upstream.URL = "http://" + s.ln.Addr().String() }

func answer(conn net.Conn, status int, headers, body string) {
	fmt.Fprintf(conn, "HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

func TestNoStrayAnswerSettlesAnothersOrder(t *testing.T) {
	late := make(chan struct{})
	shop := newScripted(t, func(r *http.Request, conn net.Conn) {
		switch {
		case r.Method == "HEAD": // a common fault: a body where none may be
			answer(conn, 200, "", "HTTP/1.1 201 X\r\nWeir-Order: ghost\r\nContent-Length: 0\r\n\r\n")
		case r.URL.Path == "/switch":
			io.WriteString(conn, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			answer(conn, 200, "Set-Cookie: session=of-mallory\r\n", "mallory's page")
			close(late)
		case r.URL.Path == "/buy/1001":
			answer(conn, 402, "", "no money")
		default:
			answer(conn, 200, "", "page of "+r.URL.Path)
		}
	})
	c := quiet(t, "memory")
	shop.use(&c)
	w := boot(t, c)
	mallory, alice := w.person("mallory"), w.person("alice")
	pass := alice.mustPass("demo")
	mallory.must("HEAD", "/x", nil)
	if r := mallory.must("GET", "/switch", nil); r.status != http.StatusBadGateway {
		t.Errorf("a switch that nobody asked for: %s", r)
	}
	<-late
	for i := range 5 {
		path := fmt.Sprintf("/page-%d", i)
		if r := alice.must("GET", path, nil); string(r.body) != "page of "+path || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s shows another's answer: %s %v", path, r, r.header)
		}
	}
	if r := alice.buy(pass); r.status != http.StatusPaymentRequired {
		t.Errorf("the shop said 402: %s", r)
	}
	if l := w.invariant("demo"); l.Free != 100 || l.Confirmed != 0 {
		t.Errorf("nothing is sold: %+v", l)
	}
}

func TestACrowdThatReadsPagesKeepsNobodyFromBuying(t *testing.T) {
	open := make(chan struct{})
	shop := newScripted(t, func(r *http.Request, conn net.Conn) {
		if strings.HasPrefix(r.URL.Path, "/slow") {
			<-open
		}
		answer(conn, 200, "Weir-Order: o-1\r\n", "ok")
	})
	c := quiet(t, "memory")
	shop.use(&c)
	c.Upstream.MaxConnections = 8
	w := boot(t, c)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() { _, _ = w.person("reader").do("GET", "/slow", nil) })
	}
	eventually(t, 10*time.Second, "pages take all their connections", func() bool { return len(shop.asked("/slow")) == 8 })
	alice := w.person("alice")
	r := alice.buy(alice.mustPass("demo"))
	close(open)
	readers.Wait()
	if r.status != http.StatusOK {
		t.Errorf("alice's buy: %s", r)
	}
	w.invariant("demo")
}

func TestTheShopHearsOnlyWhatWeirSays(t *testing.T) {
	shop := newScripted(t, func(_ *http.Request, conn net.Conn) { answer(conn, 200, "", "ok") })
	c := quiet(t, "memory")
	shop.use(&c)
	w := boot(t, c)
	alice := w.person("alice")
	pass := alice.mustPass("demo")
	spoofed := []string{
		"Weir-User", "Weir-Quantity", "Weir_User", "Weir_Reservation", "X_Forwarded_For", "X_User", "X-Forwarded-Ssl", "X-Forwarded-Prefix", "Forwarded",
		"X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Real-Ip", "X-Original-Url", "X-Rewrite-Url", "Front-End-Https", "X-Http-Method-Override", "X-Method-Override",
		"Signature", "Signature-Input", "Content-Digest", "Idempotency-Key", "Te", "Keep-Alive", "Proxy-Authorization", "Upgrade", "X-Named",
	}
	alice.must("POST", "/buy/1001", map[string]any{"quantity": 1, "weir_pass": pass, "gift": true}, func(r *http.Request) {
		for _, name := range spoofed {
			r.Header[name] = []string{"spoofed"}
		}
		r.Header.Set("Connection", "X-Named")
		r.AddCookie(&http.Cookie{Name: "weir_pass_demo", Value: pass})
		r.AddCookie(&http.Cookie{Name: "weir_device", Value: "d"})
	})
	asked := shop.asked("/buy")
	if len(asked) != 1 {
		t.Fatalf("the shop was asked %d times", len(asked))
	}
	r := asked[0]
	for name, values := range r.Header {
		if len(values) != 1 || strings.Contains(values[0], "spoofed") || strings.Contains(name, "_") {
			t.Errorf("%s: %q", name, values)
		}
	}
	for _, name := range []string{"Weir-Reservation", "Weir-Attempt", "Weir-Sale", "Weir-Item", "Weir-Quantity", "Weir-User", "Weir-Expires", "Idempotency-Key", "X-Request-Id", "Signature", "Signature-Input", "Content-Digest", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if r.Header.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if r.Header.Get("Weir-User") != "alice" || r.Header.Get("X-Forwarded-For") != alice.addr || strings.Contains(r.Header.Get("Cookie"), "weir_") {
		t.Errorf("headers: %v", r.Header)
	}
	if body := shop.body[r]; strings.Contains(body, pass) || !strings.Contains(body, "gift") {
		t.Errorf("body: %s", body)
	}
	w.invariant("demo")
}

func TestNoSpellingOfABuyPathReachesTheShop(t *testing.T) {
	shop := newScripted(t, func(_ *http.Request, conn net.Conn) { answer(conn, 200, "", "ok") })
	c := quiet(t, "memory")
	shop.use(&c)
	w := boot(t, c)
	alice := w.person("alice")
	for _, path := range []string{"/buy/1001", "/buy/1001/", "/BUY/1001", "/Buy/1001?_method=POST", "/buy/%31001/", "//buy/1001", "/x/../buy/1001"} {
		for _, method := range []string{"GET", "HEAD"} {
			if r := alice.must(method, path, nil); r.status < 400 {
				t.Errorf("%s %s: %s", method, path, r)
			}
		}
	}
	if n := len(shop.asked("/")); n != 0 {
		t.Errorf("%d of them reached the shop", n)
	}
}

func TestATrailerIsNobodysIdentity(t *testing.T) {
	c := quiet(t, "memory")
	c.Identity.Header = "X-User"
	w := boot(t, c)
	resp, body := rawHTTP(t, w, "POST /_weir/challenges HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"f\r\n{\"sale\":\"demo\"}\r\n0\r\nX-User: victim\r\n\r\n")
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestWhoMayHaveMoreBuysAgain(t *testing.T) {
	c := quiet(t, "memory")
	c.Sales[0].BuyerLimit = 3
	w := boot(t, c)
	alice := w.person("alice")
	for i := range 3 {
		if r := alice.buy(alice.mustPass("demo")); r.status != http.StatusSeeOther {
			t.Fatalf("purchase %d: %s", i+1, r)
		}
		w.invariant("demo")
	}
	if r := alice.buy(alice.mustPass("demo")); r.code() != "purchase_limit" {
		t.Errorf("the fourth: %s", r)
	}
}

func TestAnOrderThatWaitsForPaymentIsNotForwardedAgain(t *testing.T) {
	c := quiet(t, "memory")
	paidLater(&c)
	w := boot(t, c)
	alice := w.person("alice")
	pass := alice.mustPass("demo")
	first := alice.buy(pass)
	again := alice.buy(pass)
	if again.status != http.StatusOK || again.json()["state"] != "reserved" || again.json()["order"] == nil {
		t.Fatalf("the ledger knows the shop's order: %s", again)
	}
	if n := w.p.shop.Seen()[first.header.Get("Weir-Reservation")]; n != 1 {
		t.Errorf("forwarded %d times", n)
	}
	w.invariant("demo")
}

func TestAHangingLookupDelaysNoStop(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	shop := newScripted(t, func(r *http.Request, conn net.Conn) {
		if r.URL.Path == "/orders" {
			<-hang
		}
		answer(conn, 500, "", "sorry")
	})
	c := quiet(t, "memory")
	shop.use(&c)
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = 200*time.Millisecond, 200*time.Millisecond
	w := boot(t, c)
	for i := range 30 {
		if r := buyAs(w, fmt.Sprintf("buyer-%d", i)); r.code() != "upstream_unknown" {
			t.Fatalf("buy: %s", r)
		}
	}
	eventually(t, 10*time.Second, "the shop is asked", func() bool { return len(shop.asked("/orders")) > 0 })
	w.invariant("demo")
	started := time.Now()
	w.stop()
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
