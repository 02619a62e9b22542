package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/captcha/captchatest"
	"weir/internal/redisd"
	"weir/internal/sampleshop"
)

// asWeir turns the test binary into weir itself, so that a test can run the
// real program as a process of its own and kill it.
const asWeir = "WEIR_TEST_AS_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// process is a weir of its own.
type process struct {
	cmd        *exec.Cmd
	url, admin string
	token      string
	stderr     *lockedBuffer
	exited     chan struct{} // closed when the process is gone
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var bannerLine = regexp.MustCompile(`^  (public|private|admin token) +(\S+)`)

// weir starts the program as a process in dir; it does not wait for the banner.
func weir(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...), stderr: &lockedBuffer{}, exited: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), asWeir+"=1")
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		var once sync.Once
		for lines.Scan() {
			if m := bannerLine.FindStringSubmatch(lines.Text()); m != nil {
				switch m[1] {
				case "public":
					p.url = m[2]
				case "private":
					p.admin = m[2]
				default:
					p.token = m[2]
					once.Do(func() { close(ready) })
				}
			}
		}
		_ = p.cmd.Wait() // its exit code is read from ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		if t.Failed() {
			t.Logf("stderr of a weir:\n%.4000s", p.stderr)
		}
	})
	select {
	case <-ready:
	case <-p.exited:
	case <-time.After(20 * time.Second):
		t.Fatalf("no banner within 20 s:\n%s", p.stderr)
	}
	return p
}

// exit waits for the end and gives the exit code.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("still running after %v:\n%s", within, p.stderr)
		return -1
	}
}

func isolate(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("WEIR_ADMIN_TOKEN", "")
	dir := t.TempDir()
	t.Cleanup(func() { endRedis(t, filepath.Join(dir, "data")) })
	return dir
}

// endRedis ends a redis-server that outlived its killed gateways, as designed:
// who attaches last and closes ends it.
func endRedis(t *testing.T, data string) {
	if _, err := os.Stat(data); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	last, err := redisd.Start(ctx, redisd.Options{Mode: redisd.ModeLocal, Dir: data})
	if err != nil {
		t.Errorf("attaching to end Redis: %v", err)
		return
	}
	if err := last.Close(ctx); err != nil {
		t.Errorf("ending Redis: %v", err)
	}
}

// processConfig writes a configuration for processes: own ports, no limits.
func processConfig(t *testing.T, dir string, extra string) string {
	t.Helper()
	text := `
listen: {address: "127.0.0.1:0", trusted_proxies: ["127.0.0.1"]}
admin: {address: "127.0.0.1:0"}
judge: {enabled: false}
captcha: {width: 200, height: 60, pass_ttl: 1h}
upstream: {timeout: 1s, connect_timeout: 1s}
limits:
  user: {mode: off}
  pass: {mode: off}
  challenge: {mode: off}
  network: {mode: off}
  upstream: {rate: 0}
` + extra
	name := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const demoShortHold = `
sales:
  - {id: demo, version: 1, item: "1001", starts_at: now, ends_at: +1h, total: 100, buyer_limit: 1, max_quantity: 1, hold: 8s, expiry: ask, settle: accept}
`

func TestKillingAGatewayLosesNoUnitAndSellsNoneTwice(t *testing.T) {
	needRedis(t)
	dir := isolate(t)
	config := processConfig(t, dir, demoShortHold)
	one := weir(t, dir, "serve", "-c", config)
	two := weir(t, dir, "serve", "-c", config)
	if one.url == "" || two.url == "" {
		t.Fatalf("not both started:\n%s\n%s", one.stderr, two.stderr)
	}
	// The test attaches to the same folder to read pictures and books.
	at, err := redisd.Start(t.Context(), redisd.Options{Mode: "local", Dir: filepath.Join(dir, "data"), Stock: []string{"demo"}})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close(context.Background())
	_, socket, _ := at.Network()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{socket}, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()

	const buyers = 400
	var urls [2]atomic.Value
	urls[0].Store(one.url)
	urls[1].Store(two.url)
	var orders, done atomic.Int64
	var all sync.WaitGroup
	ids := make([]string, buyers)
	for i := range buyers {
		all.Go(func() {
			defer done.Add(1)
			if buyThrough(t, rdb, fmt.Sprintf("buyer-%d", i), func() string { return urls[i%2].Load().(string) }) {
				orders.Add(1)
				ids[i] = "x"
			}
		})
	}
	eventually(t, 60*time.Second, "the sale is under way", func() bool { return orders.Load() > 15 })
	if err := one.cmd.Process.Kill(); err != nil { // SIGKILL: no drain, no goodbye
		t.Fatal(err)
	}
	<-one.exited
	urls[0].Store(two.url)
	again := weir(t, dir, "serve", "-c", config)
	if again.url == "" {
		t.Fatalf("no restart after kill -9:\n%s", again.stderr)
	}
	urls[0].Store(again.url)
	all.Wait()

	level := func() map[string]any { return adminJSON(t, again, "/api/v1/sales/demo/level") }
	eventually(t, 60*time.Second, "every unit is settled", func() bool { return level()["reserved"] == float64(0) && level()["confirmed"] == float64(100) })
	if audit := adminJSON(t, again, "/api/v1/sales/demo/audit"); audit["ok"] != true {
		t.Fatalf("audit: %v", audit)
	}
	shop, err := sampleshop.New(sampleshop.Options{Redis: rdb, SigningKey: []byte("-"), KeyID: "-", SessionKey: []byte("-")})
	if err != nil {
		t.Fatal(err)
	}
	made, err := shop.Orders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	users, reservations := map[string]bool{}, map[string]bool{}
	for _, o := range made {
		users[o.User], reservations[o.Reservation] = true, true
	}
	if len(made) != 100 || len(users) != 100 || len(reservations) != 100 {
		t.Fatalf("%d orders of %d users and %d reservations, want 100 of each", len(made), len(users), len(reservations))
	}
}

// buyThrough solves and buys until the answer is final; a gateway that dies
// under it is asked again, with the same pass.
func buyThrough(t *testing.T, rdb redis.UniversalClient, user string, url func() string) bool {
	key, err := sampleshop.SharedSecret(t.Context(), rdb)
	if err != nil {
		t.Error(err)
		return false
	}
	session, err := sampleshop.NewSession(deriveKey(key, labelSession), user, time.Hour, time.Now())
	if err != nil {
		t.Error(err)
		return false
	}
	p := &person{w: &world{t: t}, user: user, session: session, addr: fmt.Sprintf("10.1.%d.%d", len(user), people.Add(1)%250), http: testClient}
	call := func(method, path string, body any, edits ...func(*http.Request)) reply {
		q := *p
		q.w = &world{t: t, url: url()}
		r, err := q.do(method, path, body, edits...)
		if err != nil {
			return reply{}
		}
		return r
	}
	pass := ""
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(90 * time.Second)
	for {
		if pass == "" {
			asked := call("POST", "/_weir/challenges", map[string]string{"sale": "demo"})
			if asked.code() == "sold_out" {
				return false // no picture is drawn for what is gone
			}
			id, _ := asked.json()["id"].(string)
			if answer, err := captchatest.Answer(t.Context(), rdb, id); err == nil {
				pass, _ = call("POST", "/_weir/challenges/"+id, map[string]string{"answer": answer}).json()["pass"].(string)
			}
		}
		r := reply{}
		if pass != "" {
			r = call("POST", "/buy/1001", nil, withPass(pass))
		}
		switch {
		case r.status == http.StatusSeeOther, r.status == http.StatusOK:
			return true
		case r.code() == "sold_out":
			return false
		case r.code() == "pass_spent":
			pass = ""
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("%s: no final answer, the last was %s", user, r)
			return false
		}
	}
}

func adminJSON(t *testing.T, p *process, path string) map[string]any {
	t.Helper()
	who := &person{w: &world{t: t, url: p.admin}, addr: "127.0.0.1", http: testClient}
	return who.must("GET", path, nil, withHeader("Authorization", "Bearer "+p.token)).json()
}

func TestStartUpFaultsAreOneClearLineAndExit1(t *testing.T) {
	needRedis(t)
	taken := weir(t, isolate(t), "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	busy := strings.TrimPrefix(taken.url, "http://")
	free := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a taken port":                  {[]string{"serve", "--listen", busy, "--admin", "127.0.0.1:0"}, "listen.address (" + busy + "): "},
		"a taken private port":          {[]string{"serve", "--listen", "127.0.0.1:0", "--admin", busy}, "admin.address"},
		"no such file":                  {[]string{"serve", "-c", "nowhere.yaml"}, "nowhere.yaml"},
		"a folder instead of a file":    {[]string{"serve", "-c", "."}, "configuration"},
		"a Redis that does not answer":  {append(free, "--redis", "127.0.0.1:1"), "127.0.0.1:1"},
		"another shop without a secret": {append(free, "--upstream", "http://127.0.0.1:1"), "WEIR_SECRET"},
		"a second stock in a folder":    {append(free, "--data", "elsewhere"), "demo"},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			p := weir(t, t.TempDir(), c.args...)
			if code := p.exit(t, 10*time.Second); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(started); took > 7*time.Second {
				t.Errorf("took %v", took)
			}
			var said []string
			for line := range strings.Lines(p.stderr.String()) {
				if strings.HasPrefix(line, "weir: ") {
					said = append(said, line)
				}
			}
			if len(said) == 0 || !strings.Contains(strings.Join(said, ""), c.want) {
				t.Errorf("want a line with %q, got:\n%s", c.want, p.stderr)
			}
		})
	}
}

func TestSigtermDrainsAndExits0(t *testing.T) {
	p := weir(t, isolate(t), "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 15*time.Second); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, p.stderr)
	}
}

func TestARestartOfTheDefaultsWarnsOfNothing(t *testing.T) {
	needRedis(t)
	dir := isolate(t)
	for range 2 {
		p := weir(t, dir, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(t, 15*time.Second); code != 0 || strings.Contains(p.stderr.String(), "WARN") {
			t.Errorf("exit code %d:\n%s", code, p.stderr)
		}
	}
}
