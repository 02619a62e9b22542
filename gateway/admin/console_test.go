package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/problem"
)

func TestOpenRoutesNeedNoToken(t *testing.T) {
	h := open(t)
	if a := h.want(200, "", "", "GET", "/healthz", ""); a.json["status"] != "ok" {
		t.Error(a.text)
	}
	if a := h.want(200, "", "", "GET", "/readyz", ""); a.json["status"] != "ready" {
		t.Error(a.text)
	}
	h.reasons.Store(&[]string{"redis is away"})
	if a := h.want(503, "", "", "GET", "/readyz", ""); a.text != `{"reasons":["redis is away"],"status":"not_ready"}`+"\n" {
		t.Error(a.text)
	}
	if a := h.want(200, "", "", "GET", "/metrics", ""); !strings.Contains(a.text, "weir_test 0") {
		t.Error(a.text)
	}
}

func TestTheFrontPageListsTheAPIAndNoSecret(t *testing.T) {
	h := open(t)
	a := h.want(200, "", "", "GET", "/", "")
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Error(a.header)
	}
	for _, r := range routes() {
		if !strings.Contains(a.text, "<code>"+strings.ReplaceAll(r.path, ":id", "{id}")+"</code>") {
			t.Errorf("%s is not listed", r.path)
		}
	}
	for _, role := range []string{Viewer, Operator} {
		if strings.Contains(a.text, secretOf(role)) || strings.Contains(a.text, "the-"+role) {
			t.Error("the page tells of tokens")
		}
	}
	if strings.Contains(a.text, "<script") || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("the page may run scripts")
	}
	_, rest, _ := strings.Cut(a.text, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	if !strings.Contains(a.header.Get("Content-Security-Policy"), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Error("the page's style is not the one that its policy allows")
	}
	if head := h.want(200, "", "", "HEAD", "/", ""); head.text != "" {
		t.Error("HEAD has a body")
	}
}

func TestVersion(t *testing.T) {
	if a := open(t).want(200, "", Viewer, "GET", "/api/v1/version", ""); a.json["version"] != "v1.2.3" || a.json["go"] == "" {
		t.Error(a.text)
	}
}

func TestEveryRouteKeepsItsRoles(t *testing.T) {
	h := open(t)
	for _, r := range routes() {
		path := strings.NewReplacer(":id", "nothing", "*", "cmdline").Replace(r.path)
		for _, role := range []string{Viewer, Security, Merchandiser, Operator, Shop} {
			a := h.ask(role, r.method, path, "")
			allowed := r.roles == nobody || r.roles&roleOf(role) != 0
			if allowed == (a.status == 403) || a.status == 401 {
				t.Errorf("%s %s by %s: %d", r.method, path, role, a.status)
			}
			if a.status == 403 && r.change != nil && h.outcomes(a) != "forbidden" {
				t.Errorf("%s %s by %s leaves %q in the audit log", r.method, path, role, h.outcomes(a))
			}
		}
		a := h.ask("", r.method, path, "")
		if (r.roles == nobody) == (a.status == 401) {
			t.Errorf("%s %s without a token: %d", r.method, path, a.status)
		}
		if a.status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Error("401 without WWW-Authenticate")
		}
	}
}

// The roles once more, written by hand: a slip in the table must not pass.
func TestRolesAsPromised(t *testing.T) {
	may := map[string]string{ // viewer security merchandiser operator shop
		"GET /": "vsmox", "GET /healthz": "vsmox", "GET /readyz": "vsmox", "GET /metrics": "vsmox",
		"GET /debug/pprof/*":  "o",
		"GET /api/v1/version": "vsmo", "GET /api/v1/bans": "vsmo", "GET /api/v1/explain": "vsmo", "GET /api/v1/audit": "vsmo", "GET /api/v1/limits": "vsmo",
		"POST /api/v1/bans": "so", "DELETE /api/v1/bans": "so",
		"GET /api/v1/sales": "vsmo", "GET /api/v1/sales/:id": "vsmo", "GET /api/v1/sales/:id/level": "vsmo", "GET /api/v1/sales/:id/audit": "vsmo",
		"POST /api/v1/sales/:id/preheat": "mo", "POST /api/v1/sales/:id/pause": "mo", "POST /api/v1/sales/:id/resume": "mo", "POST /api/v1/sales/:id/cancel": "mo",
		"POST /api/v1/sales": "mo", "PUT /api/v1/sales/:id": "mo", "DELETE /api/v1/sales/:id": "mo",
		"GET /api/v1/sales/:id/ledger": "vsmo", "POST /api/v1/sales/:id/reconcile": "o", "POST /api/v1/sales/:id/archive": "o",
		"GET /api/v1/reservations/:id": "vsmox", "POST /api/v1/reservations/:id/confirm": "ox", "POST /api/v1/reservations/:id/release": "ox",
	}
	letters := map[string]string{Viewer: "v", Security: "s", Merchandiser: "m", Operator: "o", Shop: "x"}
	for _, r := range routes() {
		promised, known := may[r.method+" "+r.path]
		if !known {
			t.Errorf("%s %s is promised to nobody", r.method, r.path)
		}
		for role, letter := range letters {
			allowed := r.roles == nobody || r.roles&roleOf(role) != 0
			if allowed != strings.Contains(promised, letter) {
				t.Errorf("%s %s by %s: %t", r.method, r.path, role, allowed)
			}
		}
		if (r.change == nil) == (r.read == nil) || (r.change == nil) != (r.action == "") {
			t.Errorf("%s %s is neither a read nor a change with a name", r.method, r.path)
		}
	}
	if len(may) != len(routes()) {
		t.Errorf("%d routes, %d promised", len(routes()), len(may))
	}
}

func TestAWrongTokenIsRefused(t *testing.T) {
	h := open(t)
	for _, header := range []string{
		"Bearer wrong-secret-0123456789", "Bearer", "Bearer ", "Basic " + secretOf(Operator), secretOf(Operator),
		"Bearer " + secretOf(Operator) + "x", "Bearer " + secretOf(Operator)[1:], "Bearer x " + secretOf(Operator),
	} {
		a := h.send("GET", "/api/v1/bans", "", http.Header{"Authorization": {header}})
		if a.status != 401 || a.json["code"] != "unauthorized" {
			t.Errorf("%q: %d %s", header, a.status, a.text)
		}
		checkProblem(t, a)
	}
	if a := h.send("GET", "/api/v1/bans", "", http.Header{"Authorization": {"bearer  " + secretOf(Viewer)}}); a.status != 200 {
		t.Errorf("the scheme's case matters: %d", a.status)
	}
}

func TestStrangersCannotFloodTheAuditLog(t *testing.T) {
	h := open(t)
	for range 3 * strangerBurst {
		h.want(401, "unauthorized", "", "POST", "/api/v1/bans", `{"scope":"user","value":"alice","permanent":true}`)
	}
	n := h.redis.XLen(t.Context(), peopleKey()).Val()
	if n < 1 || n > strangerBurst+2 {
		t.Errorf("%d entries of strangers", n)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	h := open(t)
	for _, path := range []string{"/nothing", "/api/v1/BANS", "/api/v1/bans/", "/api/v1/sales/a/b/c", "/_weir/sales/demo"} {
		h.want(404, "not_found", Operator, "GET", path, "")
	}
	a := h.want(405, "method", Operator, "PUT", "/api/v1/bans", "")
	allow := a.header.Get("Allow")
	for _, m := range []string{"GET", "POST", "DELETE"} {
		if !strings.Contains(allow, m) {
			t.Errorf("Allow %q misses %s", allow, m)
		}
	}
	h.want(405, "method", Operator, "GET", "/api/v1/sales/demo/preheat", "")
	h.want(405, "method", "", "OPTIONS", "/api/v1/bans", "")
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("CORS on the private listener")
	}
}

func TestProfilesAreForOperators(t *testing.T) {
	h := open(t)
	h.want(403, "forbidden", Viewer, "GET", "/debug/pprof/", "")
	h.want(401, "unauthorized", "", "GET", "/debug/pprof/heap", "")
	if a := h.want(200, "", Operator, "GET", "/debug/pprof/", ""); !strings.Contains(a.text, "goroutine") {
		t.Error(a.text)
	}
	h.want(200, "", Operator, "GET", "/debug/pprof/goroutine?debug=1", "")
}

func TestAnOversizedBodyIsRefused(t *testing.T) {
	h := open(t)
	a := h.ask(Operator, "POST", "/api/v1/bans", `{"reason":"`+strings.Repeat("x", 70<<10)+`"}`)
	if a.status != 413 || a.json["code"] != "too_large" {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestWhatCannotBeReadIsNotEchoed(t *testing.T) {
	h := open(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nbad header secret-word\r\n\r\n")
	text, _ := io.ReadAll(conn)
	if !strings.Contains(string(text), " 400 ") || !strings.Contains(string(text), problem.ContentType) || strings.Contains(string(text), "secret-word") {
		t.Errorf("%s", text)
	}
}

func TestRunStopsGracefully(t *testing.T) {
	h := open(t)
	h.want(200, "", "", "GET", "/healthz", "") // leaves an idle connection behind
	h.stop()
	select {
	case err := <-h.stopped:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		h.stopped <- nil
	case <-time.After(stopTimeout + time.Second):
		t.Fatal("does not stop")
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://")); err == nil {
		t.Error("still listening")
	}
}

func TestARequestInFlightIsAnsweredBeforeTheStop(t *testing.T) {
	h := open(t)
	asked, answered := make(chan struct{}), make(chan struct{})
	c, err := New(h.config(), Deps{Stock: h.stock, Bans: h.bans, Redis: h.redis, Ready: func() []string {
		close(asked)
		<-answered
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	h2 := &house{t: t, stopped: make(chan error, 1)}
	h2.serve(c)
	done := make(chan int, 1)
	go func() { done <- h2.ask("", "GET", "/readyz", "").status }()
	<-asked
	h2.stop()
	eventually(t, "the listener closes", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h2.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(answered)
	if status := <-done; status != 200 {
		t.Errorf("status %d", status)
	}
}

// eventually waits for a condition, never for a time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func TestRunStopsWhenItsContextIsOverAlready(t *testing.T) {
	h := open(t)
	c, err := New(h.config(), Deps{Stock: h.stock, Bans: h.bans, Redis: h.redis})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx, ln); err != nil {
		t.Error(err)
	}
}

func TestRunReportsALostListener(t *testing.T) {
	h := open(t)
	c, err := New(h.config(), Deps{Stock: h.stock, Bans: h.bans, Redis: h.redis})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := c.Run(t.Context(), ln); err == nil {
		t.Error("a closed listener is no fault")
	}
}

func TestNewRefusesBadTokensAndNamesThemAll(t *testing.T) {
	h := open(t)
	deps := Deps{Stock: h.stock, Bans: h.bans, Redis: h.redis}
	_, err := New(Config{Tokens: []Token{
		{Name: "short", Role: Viewer, Secret: "hush"},
		{Name: "", Role: Viewer, Secret: "0123456789abcdef"},
		{Name: "king", Role: "king", Secret: "0123456789abcdeg"},
		{Name: "king", Role: Shop, Secret: "0123456789abcdef"},
	}}, deps)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{`"short"`, "shorter than 16", "printable", `role "king"`, "used twice", "secret is that of"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told in %v", part, err)
		}
	}
	for _, secret := range []string{"hush", "0123456789"} {
		if strings.Contains(err.Error(), secret) {
			t.Error("a secret is printed")
		}
	}
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("no parts are accepted")
	}
	if _, err := New(Config{BodyLimit: -1}, deps); err == nil {
		t.Error("a negative body limit is accepted")
	}
}

func TestAPanicIsA500AndTheConsoleGoesOn(t *testing.T) {
	h := open(t)
	c, err := New(h.config(), Deps{Stock: h.stock, Bans: h.bans, Redis: h.redis, Ready: func() []string { panic("secret cause") }})
	if err != nil {
		t.Fatal(err)
	}
	h2 := &house{t: t, stopped: make(chan error, 1)}
	h2.serve(c)
	if a := h2.want(500, "internal", "", "GET", "/readyz", ""); strings.Contains(a.text, "secret cause") {
		t.Error(a.text)
	}
	h2.want(200, "", "", "GET", "/healthz", "")
}
