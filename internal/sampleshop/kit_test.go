package sampleshop

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/httpsig"
)

func options(rdb redis.UniversalClient) Options {
	return Options{
		Redis: rdb, SigningKey: signingKey, KeyID: "shop", SessionKey: sessionKey,
		Items: []Item{{ID: "1001", Name: "Kettle", Price: "€ 49.00", Sale: "demo"}, {ID: "1002", Name: "<b>Cup</b>", Price: "€ 9.00"}},
		Log:   slog.New(slog.DiscardHandler),
	}
}

// start serves one shop on a port of its own.
func start(t *testing.T, opt Options) (*Shop, string) {
	t.Helper()
	shop, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- shop.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return shop, "http://" + ln.Addr().String()
}

// memory is a shop on miniredis.
func memory(t *testing.T, change func(*Options)) (*Shop, string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	opt := options(rdb)
	if change != nil {
		change(&opt)
	}
	return start(t, opt)
}

// client does not follow redirects and reuses no connection, so that net/http
// never repeats a request on its own.
func client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
}

// forwarded is a request as weir sends it; change runs before it is signed.
func forwarded(t *testing.T, method, target, body string, header map[string]string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	m := httpsig.Message{Method: method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Header: map[string]string{"content-digest": httpsig.Digest([]byte(body))}}
	for name, value := range header {
		m.Header[strings.ToLower(name)] = value
	}
	for name, value := range m.Header {
		r.Header.Set(name, value)
	}
	input, sig := httpsig.Sign(signingKey, "shop", time.Now(), m)
	r.Header.Set("Signature-Input", input)
	r.Header.Set("Signature", sig)
	return r
}

func buyHeaders(key string) map[string]string {
	return map[string]string{
		"Idempotency-Key": key, "Weir-Reservation": key, "Weir-Attempt": "1", "Weir-Sale": "demo", "Weir-Item": "1001",
		"Weir-Quantity": "2", "Weir-User": "u-1", "Weir-Expires": time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"),
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func send(r *http.Request) (answer, error) {
	resp, err := client().Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

func mustSend(t *testing.T, r *http.Request) answer {
	t.Helper()
	a, err := send(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func buy(t *testing.T, url, key string) answer {
	t.Helper()
	return mustSend(t, forwarded(t, "POST", url+"/buy/1001", "", buyHeaders(key)))
}

// ask is weir's question whether a reservation has an order.
func ask(t *testing.T, url, reservation string) (order string, status int) {
	t.Helper()
	a := mustSend(t, forwarded(t, "GET", url+"/orders?reservation="+reservation, "", map[string]string{"Weir-Reservation": reservation}))
	var body struct{ Order string }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	if body.Order != a.header.Get("Weir-Order") {
		t.Errorf("body says %q, Weir-Order %q", body.Order, a.header.Get("Weir-Order"))
	}
	return body.Order, a.status
}

func get(t *testing.T, url string, cookies ...*http.Cookie) answer {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return mustSend(t, r)
}

func session(t *testing.T, user string, ttl time.Duration) *http.Cookie {
	t.Helper()
	token, err := NewSession(sessionKey, user, ttl, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &http.Cookie{Name: SessionCookie, Value: token}
}
