package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/captcha/captchatest"
	"weir/internal/redisd"
	"weir/internal/sampleshop"
	"weir/inventory"
)

// world is a whole program under test, with its shop, on port 0.
type world struct {
	t      *testing.T
	p      *program
	url    string
	admin  string
	cancel context.CancelFunc
	done   chan error
}

// quiet is a configuration for tests: one demo sale, ports chosen by the
// system, callers told apart by X-Forwarded-For, and no limit in the way.
func quiet(t *testing.T, mode string) Config {
	c := Default()
	c.Listen.Address, c.Admin.Address = "127.0.0.1:0", "127.0.0.1:0"
	c.Listen.TrustedProxies = []string{"127.0.0.1"}
	c.Data = t.TempDir()
	c.Redis.Mode = mode
	c.Redis.Stock.Pool = 64
	c.Redis.Stock.ReadTimeout = 5 * time.Second
	c.Judge.Enabled = false
	c.Listen.Drain = 5 * time.Second
	l := &c.Limits
	for _, own := range []*OwnLimit{&l.User, &l.Device, &l.Address, &l.Network, &l.Pass, &l.Signature, &l.Challenge} {
		own.Mode = "off"
	}
	for _, shared := range []*SharedLimit{&l.Item, &l.Route, &l.Upstream, &l.Cluster} {
		shared.Mode = "off"
	}
	return c
}

// modes are the Redis modes that every whole-program test runs on.
func modes(t *testing.T, test func(t *testing.T, mode string)) {
	t.Run("memory", func(t *testing.T) { test(t, redisd.ModeMemory) })
	t.Run("local", func(t *testing.T) {
		needRedis(t)
		test(t, redisd.ModeLocal)
	})
}

func needRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatal("redis-server is not installed and WEIR_REQUIRE_REAL asks for it")
		}
		t.Skip("redis-server is not installed")
	}
}

// apart keeps a test from the stock of a weir that runs on this host.
func apart(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()) {
		t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	}
}

// boot starts a program and stops it when the test ends; it must stop cleanly.
func boot(t *testing.T, c Config) *world {
	t.Helper()
	apart(t)
	if faults := c.Validate(); len(faults) > 0 {
		t.Fatalf("the test's configuration: %v", faults)
	}
	secrets, err := c.Secrets(testEnv(c))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := start(ctx, c, secrets, testLog(t))
	if err != nil {
		cancel()
		t.Fatalf("start: %v", err)
	}
	w := &world{t: t, p: p, url: "http://" + p.public.Addr().String(), admin: "http://" + p.private.Addr().String(), cancel: cancel, done: make(chan error, 1)}
	go func() { w.done <- p.run(ctx) }()
	t.Cleanup(w.stop)
	return w
}

// stop ends the program and checks that it ended well; a second call does nothing.
func (w *world) stop() {
	w.cancel()
	if w.done == nil {
		return
	}
	select {
	case err := <-w.done:
		if err != nil {
			w.t.Errorf("the program ended with: %v", err)
		}
	case <-time.After(20 * time.Second):
		w.t.Error("the program did not stop within 20 s")
	}
	w.done = nil
}

// testLog shows a program's warnings when a test fails.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		if t.Context().Err() == nil {
			t.Log(strings.TrimSpace(string(b)))
		}
		return len(b), nil
	}), &slog.HandlerOptions{Level: slog.LevelError}))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// person is a signed-in visitor with an address of his own.
type person struct {
	w       *world
	user    string
	session string
	addr    string
	http    *http.Client
}

var people atomic.Uint32

// person signs a visitor in as the sample shop would.
func (w *world) person(user string) *person {
	n := people.Add(1)
	session, err := sampleshop.NewSession(w.p.sessionKey(), user, time.Hour, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return &person{w: w, user: user, session: session, addr: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), http: testClient}
}

var testClient = &http.Client{
	Timeout:       30 * time.Second,
	Transport:     &http.Transport{MaxIdleConnsPerHost: 512, MaxConnsPerHost: 512},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) json() map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal(r.body, &out)
	return out
}

// code is the problem's code; "" when the answer is none.
func (r reply) code() string {
	code, _ := r.json()["code"].(string)
	return code
}

func (r reply) String() string {
	return fmt.Sprintf("%d %s %.300s", r.status, r.header.Get("Content-Type"), r.body)
}

// do sends one request; edits change it before it goes.
func (p *person) do(method, path string, body any, edits ...func(*http.Request)) (reply, error) {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, p.w.url+path, in)
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Forwarded-For", p.addr)
	if p.session != "" {
		req.AddCookie(&http.Cookie{Name: sampleshop.SessionCookie, Value: p.session})
	}
	for _, edit := range edits {
		edit(req)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw}, err
}

func (p *person) must(method, path string, body any, edits ...func(*http.Request)) reply {
	p.w.t.Helper()
	r, err := p.do(method, path, body, edits...)
	if err != nil {
		p.w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// challenge asks for a picture and reads it as a human would.
func (p *person) challenge(sale string) (id, answer string, err error) {
	r, err := p.do("POST", "/_weir/challenges", map[string]string{"sale": sale})
	if err != nil {
		return "", "", err
	}
	id, _ = r.json()["id"].(string)
	if r.status != http.StatusCreated || id == "" {
		return "", "", fmt.Errorf("challenge: %s", r)
	}
	answer, err = captchatest.Answer(context.Background(), p.w.p.redis.shared, id)
	return id, answer, err
}

// pass solves a fresh challenge.
func (p *person) pass(sale string) (string, error) {
	id, answer, err := p.challenge(sale)
	if err != nil {
		return "", err
	}
	r, err := p.do("POST", "/_weir/challenges/"+id, map[string]string{"answer": answer})
	if err != nil {
		return "", err
	}
	pass, _ := r.json()["pass"].(string)
	if pass == "" {
		return "", fmt.Errorf("solve: %s", r)
	}
	return pass, nil
}

func (p *person) mustPass(sale string) string {
	p.w.t.Helper()
	pass, err := p.pass(sale)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return pass
}

func withPass(pass string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Weir-Pass", pass) }
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (p *person) buy(pass string) reply {
	p.w.t.Helper()
	return p.must("POST", "/buy/1001", nil, withPass(pass))
}

// op calls the private API as operator.
func (w *world) op(method, path string, body any) reply {
	w.t.Helper()
	p := &person{w: &world{t: w.t, url: w.admin}, http: testClient, addr: "127.0.0.1"}
	return p.must(method, path, body, withHeader("Authorization", "Bearer "+w.token()))
}

// invariant checks total = free + reserved + confirmed + on loan, the ledger
// against the counters, and returns the level. It is called after every phase.
func (w *world) invariant(sale string) inventory.Level {
	w.t.Helper()
	return w.agree(sale, func(string) bool { return false })
}

// apartFromTheArchive is invariant for a stock that has gone back behind its archive.
func (w *world) apartFromTheArchive(sale string) inventory.Level {
	w.t.Helper()
	return w.agree(sale, func(d string) bool { return strings.Contains(d, "in the archive") })
}

func (w *world) agree(sale string, but func(difference string) bool) inventory.Level {
	w.t.Helper()
	a, err := w.p.stock.Audit(context.Background(), sale)
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	if a.Differences = slices.DeleteFunc(a.Differences, but); len(a.Differences) == 0 {
		a.OK = a.Proved
	}
	l := a.Level
	if !a.OK || l.Total != l.Free+l.Reserved+l.Confirmed+l.OnLoan || min(l.Free, l.Reserved, l.Confirmed, l.OnLoan) < 0 {
		w.t.Fatalf("the books do not agree: %+v %v", l, a.Differences)
	}
	return l
}

// orders are the shop's, by id; it has at most one per reservation.
func (w *world) orders() map[string]sampleshop.Order {
	w.t.Helper()
	all, err := w.p.shop.Orders(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	of := map[string]string{}
	for id, o := range all {
		if other, twice := of[o.Reservation]; twice {
			w.t.Fatalf("orders %s and %s are of one reservation", id, other)
		}
		of[o.Reservation] = id
	}
	return all
}

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after %v still not: %s", within, what)
		case <-tick.C:
		}
	}
}

// form posts a browser's form.
func (p *person) form(path string, values url.Values, edits ...func(*http.Request)) reply {
	p.w.t.Helper()
	body := values.Encode()
	return p.must("POST", path, nil, append([]func(*http.Request){func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html,application/xhtml+xml")
	}}, edits...)...)
}

// browser keeps cookies and does not follow redirects by itself.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func answerOf(t *testing.T, w *world, id string) string {
	t.Helper()
	answer, err := captchatest.Answer(context.Background(), w.p.redis.shared, id)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// testEnv holds the secrets that a shop other than the sample needs.
func testEnv(c Config) func(string) string {
	if c.Upstream.Sample() {
		return func(string) string { return "" }
	}
	env := map[string]string{
		"WEIR_SECRET":      strings.Repeat("s", 32),
		"WEIR_JWT_SECRET":  strings.Repeat("j", 32),
		"WEIR_ADMIN_TOKEN": strings.Repeat("t", 32),
	}
	return func(name string) string { return env[name] }
}

// token is an operator's.
func (w *world) token() string {
	if w.p.madeToken != "" {
		return w.p.madeToken
	}
	return string(w.p.secrets.AdminTokens[0].Token.Reveal())
}
