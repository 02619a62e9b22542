package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/blacklist"
	"weir/inventory"
)

// secretOf is the secret of the test token of a role.
func secretOf(role string) string { return role + "-secret-0123456789" }

// house is a whole private listener on port 0 with real leaves on miniredis.
type house struct {
	t       *testing.T
	url     string
	bans    *blacklist.List
	stock   *inventory.Store
	redis   *redis.Client
	mini    *miniredis.Miniredis
	console *Console
	noAudit audited // whether the audit log can be written
	reasons atomic.Pointer[[]string]
	stop    context.CancelFunc
	stopped chan error
}

func open(t *testing.T) *house {
	t.Helper()
	return openWith(t, func(*Deps) {})
}

// openWith opens a house whose parts were changed.
func openWith(t *testing.T, change func(*Deps)) *house {
	t.Helper()
	m := miniredis.RunT(t)
	h := &house{t: t, mini: m, redis: dial(t, m.Addr()), stopped: make(chan error, 1)}
	var err error
	h.bans, err = blacklist.New(blacklist.Config{Redis: h.redis})
	if err == nil {
		err = h.bans.Load(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	h.stock, err = inventory.New(inventory.Config{Redis: h.redis, Memory: true, Replica: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_test", Help: "A test."}))
	logs := dial(t, m.Addr())
	logs.AddHook(auditFault{&h.noAudit})

	plans := planned() // once, as a file is read once
	deps := Deps{Stock: h.stock, Bans: h.bans, Redis: logs, Planned: func() []inventory.Sale { return plans }, Ready: h.ready, Metrics: registry}
	change(&deps)
	c, err := New(h.config(), deps)
	if err != nil {
		t.Fatal(err)
	}
	h.console = c
	h.serve(c)
	return h
}

func (h *house) config() Config {
	config := Config{Version: "v1.2.3"}
	for _, role := range []string{Viewer, Security, Merchandiser, Operator, Shop} {
		config.Tokens = append(config.Tokens, Token{Name: "the-" + role, Role: role, Secret: secretOf(role)})
	}
	return config
}

func (h *house) ready() []string {
	if r := h.reasons.Load(); r != nil {
		return *r
	}
	return nil
}

func (h *house) serve(c *Console) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "http://" + ln.Addr().String()
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	go func() { h.stopped <- c.Run(ctx, ln) }()
	h.t.Cleanup(func() {
		h.stop()
		if err := <-h.stopped; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	})
}

// planned are the sales of the config file.
func planned() []inventory.Sale {
	now := time.Now().Truncate(time.Second)
	one := func(id, item string, start time.Time) inventory.Sale {
		return inventory.Sale{ID: id, Version: 1, Item: item, StartAt: start, EndAt: now.Add(2 * time.Hour),
			Total: 100, SafetyStock: 5, BuyerLimit: 2, MaxQuantity: 2, Hold: 10 * time.Minute,
			Expiry: inventory.ExpiryFree, Settle: inventory.SettlePayment}
	}
	broken := one("broken", "1003", now)
	broken.BucketCap = 10
	return []inventory.Sale{one("demo", "1001", time.Time{}), one("later", "1002", now.Add(time.Hour)), broken}
}

func dial(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// audited breaks the audit log: after so many entries no more are written.
type audited struct {
	broken atomic.Bool
	left   atomic.Int64
}

func (a *audited) breakAfter(entries int64) { a.left.Store(entries); a.broken.Store(true) }

// auditFault breaks XADD on one client.
type auditFault struct{ on *audited }

func (f auditFault) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f auditFault) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.on.broken.Load() && cmd.Name() == "xadd" && f.on.left.Add(-1) < 0 {
			err := errors.New("audit log away")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (f auditFault) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	text   string
	json   map[string]any
}

// ask sends a request with the token of a role; "" sends none.
func (h *house) ask(role, method, path, body string) answer {
	h.t.Helper()
	header := http.Header{}
	if role != "" {
		header.Set("Authorization", "Bearer "+secretOf(role))
	}
	if body != "" {
		header.Set("Content-Type", "application/json")
	}
	return h.send(method, path, body, header)
}

func (h *house) send(method, path, body string, header http.Header) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header = header
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	a := answer{status: w.StatusCode, header: w.Header, text: string(text)}
	if strings.Contains(w.Header.Get("Content-Type"), "json") && len(text) > 0 {
		if err := json.Unmarshal(text, &a.json); err != nil {
			h.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return a
}

// match asks with an If-Match; "" sends none.
func (h *house) match(status int, code, role, method, path, body, ifMatch string) answer {
	h.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + secretOf(role)}, "Content-Type": {"application/json"}}
	if ifMatch != "" {
		header.Set("If-Match", ifMatch)
	}
	a := h.send(method, path, body, header)
	if a.status != status || code != "" && a.json["code"] != code {
		h.t.Fatalf("%s %s with %s: %d %s, want %d %s", method, path, ifMatch, a.status, a.text, status, code)
	}
	if code != "" {
		checkProblem(h.t, a)
	}
	return a
}

// want asks and checks status and, for a refusal, the whole problem.
func (h *house) want(status int, code, role, method, path, body string) answer {
	h.t.Helper()
	a := h.ask(role, method, path, body)
	if a.status != status || code != "" && a.json["code"] != code {
		h.t.Fatalf("%s %s by %q: %d %s, want %d %s", method, path, role, a.status, a.text, status, code)
	}
	if code != "" {
		checkProblem(h.t, a)
	}
	return a
}

func checkProblem(t *testing.T, a answer) {
	t.Helper()
	if a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("content type %q", a.header.Get("Content-Type"))
	}
	for _, member := range []string{"type", "title", "status", "code", "detail", "request_id"} {
		if a.json[member] == nil {
			t.Errorf("problem without %s: %s", member, a.text)
		}
	}
	if a.json["request_id"] != a.header.Get("X-Request-Id") {
		t.Errorf("request id %v in the body, %v in the head", a.json["request_id"], a.header.Get("X-Request-Id"))
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Error("a refusal may be cached")
	}
}

// auditOf reads the entries that one request left, oldest first.
func (h *house) auditOf(a answer) (entries []AuditEntry) {
	h.t.Helper()
	var log struct{ Entries []AuditEntry }
	text := h.want(200, "", Operator, "GET", "/api/v1/audit?limit=1000", "").text
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		h.t.Fatal(err)
	}
	for i := range log.Entries {
		if e := log.Entries[len(log.Entries)-1-i]; e.RequestID == a.header.Get("X-Request-Id") {
			entries = append(entries, e)
		}
	}
	return entries
}

// outcomes of one request in the audit log, in order.
func (h *house) outcomes(a answer) string {
	h.t.Helper()
	var all []string
	for _, e := range h.auditOf(a) {
		all = append(all, e.Outcome)
	}
	return strings.Join(all, " ")
}
