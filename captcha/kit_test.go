package captcha_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/captcha"
	"weir/captcha/captchatest"
)

// bed is one Redis and what a test may do to it.
type bed struct {
	t   *testing.T
	rdb *redis.Client
	// pass lets d go by for TTLs: miniredis is told, on a real Redis it is waited
	// for, so tests choose short TTLs.
	pass func(d time.Duration)
	log  *bytes.Buffer
}

// onBoth runs a test on miniredis and on a real redis-server.
func onBoth(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Run("memory", func(t *testing.T) {
		m := miniredis.RunT(t)
		b := &bed{t: t, rdb: client(t, "tcp", m.Addr()), log: new(bytes.Buffer)}
		b.pass = func(d time.Duration) { m.FastForward(d) }
		test(t, b)
		b.everyKeyEnds()
	})
	t.Run("real", func(t *testing.T) {
		b := &bed{t: t, rdb: client(t, "unix", realRedis(t)), log: new(bytes.Buffer)}
		b.pass = func(d time.Duration) {
			till := time.Now().Add(d)
			eventually(t, func() bool { return time.Now().After(till) })
		}
		test(t, b)
		b.everyKeyEnds()
	})
}

func client(t *testing.T, network, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Network: network, Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

func realRedis(t *testing.T) (socket string) {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatal("no redis-server on PATH")
		}
		t.Skip("no redis-server on PATH")
	}
	dir, err := os.MkdirTemp("", "weir") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return socket
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("not within 10 s")
		}
	}
}

// everyKeyEnds is the invariant after each test: our prefix, and a TTL.
func (b *bed) everyKeyEnds() {
	b.t.Helper()
	ctx := context.Background()
	keys, err := b.rdb.Keys(ctx, "*").Result()
	must(b.t, err)
	for _, k := range keys {
		if ttl := b.rdb.PTTL(ctx, k).Val(); ttl < 0 && ttl != -2 {
			b.t.Errorf("%s never ends", k)
		}
		if !strings.HasPrefix(k, "weir:{captcha:") {
			b.t.Errorf("%s is no key of ours", k)
		}
	}
}

var orders atomic.Int64

func (b *bed) config() captcha.Config {
	return captcha.Config{
		Redis:        b.rdb,
		ChallengeKey: bytes.Repeat([]byte{1}, 32),
		PassKey:      bytes.Repeat([]byte{2}, 32),
		KeyID:        "k1", Policy: 7,
		NewOrderID: func(sale, user string) string { return sale + "-" + strconv.FormatInt(orders.Add(1), 10) },
		Log:        slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// issuer makes a replica; each change is made to its config.
func (b *bed) issuer(change ...func(*captcha.Config)) *captcha.Issuer {
	b.t.Helper()
	cfg := b.config()
	for _, c := range change {
		c(&cfg)
	}
	i, err := captcha.New(cfg)
	must(b.t, err)
	return i
}

var ann = captcha.Binding{User: "ann", Sale: "demo", Item: "1001", Device: "laptop"}

// open issues a challenge and reads its answer.
func (b *bed) open(i *captcha.Issuer, for_ captcha.Binding) (id, answer string) {
	b.t.Helper()
	c, err := i.Issue(context.Background(), for_, "image")
	must(b.t, err)
	answer, err = captchatest.Answer(context.Background(), b.rdb, c.ID)
	must(b.t, err)
	return c.ID, answer
}

// solve opens a challenge and solves it.
func (b *bed) solve(i *captcha.Issuer, for_ captcha.Binding) (string, captcha.Pass) {
	b.t.Helper()
	id, answer := b.open(i, for_)
	token, p, err := i.Solve(context.Background(), id, for_.User, answer)
	must(b.t, err)
	return token, p
}

// other is an answer of the same length that is wrong.
func other(answer string) string {
	return string('0'+(answer[0]-'0'+1)%10) + answer[1:]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// lossy loses the replies of scripts that took effect.
type lossy struct{ lose atomic.Int64 }

var errLost = errors.New("reply lost")

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && l.lose.Add(-1) >= 0 {
			cmd.SetErr(errLost)
			return errLost
		}
		return err
	}
}

// twice runs each script again and tells the second reply.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook { return next }
func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		return err
	}
}
