package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// env is one Redis with one store on it. advance moves its time.
type env struct {
	store  *Store
	client *redis.Client
	mini   *miniredis.Miniredis // nil on a real server
	real   *realRedis           // nil on miniredis
	now    time.Time            // of miniredis
	zero   map[string]int64     // of a bucket's head: its time when a model began, ms
}

// eachRedis runs the test on miniredis and on a real redis-server.
func eachRedis(t *testing.T, test func(t *testing.T, v *env)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryEnv(t)) })
	t.Run("real", func(t *testing.T) { test(t, realEnv(t)) })
}

func memoryEnv(t testing.TB) *env {
	m := miniredis.RunT(t)
	v := &env{mini: m, now: time.Unix(1_800_000_000, 0)}
	m.SetTime(v.now)
	v.client = redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { v.client.Close() })
	v.store = newStore(t, v.client, true)
	return v
}

func realEnv(t testing.TB) *env {
	v := &env{real: startRedis(t)}
	v.client = v.real.client(t)
	v.store = newStore(t, v.client, false)
	return v
}

func newStore(t testing.TB, c redis.UniversalClient, memory bool) *Store {
	t.Helper()
	s, err := New(Config{Redis: c, Memory: memory, Replica: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// realRedis is a redis-server on a unix socket with an append-only file.
type realRedis struct {
	dir, socket string
	cmd         *exec.Cmd
}

func startRedis(t testing.TB) *realRedis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatal("redis-server is not on PATH")
		}
		t.Skip("redis-server is not on PATH")
	}
	dir, err := os.MkdirTemp("", "weir") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	r := &realRedis{dir: dir, socket: filepath.Join(dir, "s")}
	t.Cleanup(func() { r.kill(); os.RemoveAll(dir) })
	r.start(t)
	return r
}

func (r *realRedis) start(t testing.TB) {
	t.Helper()
	r.cmd = exec.Command("redis-server", "--port", "0", "--unixsocket", r.socket, "--dir", r.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "no", "--loglevel", "warning")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := r.client(t)
	eventually(t, "redis-server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
}

func (r *realRedis) client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 64})
	t.Cleanup(func() { c.Close() })
	return c
}

// kill ends the server without a chance to say goodbye.
func (r *realRedis) kill() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited 10s: %s", what)
		case <-tick.C:
		}
	}
}

// advance lets d pass for the sale. miniredis has its clock set; on a real
// server the epoch of each bucket moves d into the past, which is the same.
func (v *env) advance(t testing.TB, sale string, d time.Duration) {
	t.Helper()
	if v.mini != nil {
		v.now = v.now.Add(d)
		v.mini.SetTime(v.now)
		return
	}
	for _, b := range v.buckets(sale) {
		must(t, v.client.HIncrBy(t.Context(), b.headKey(), "epoch", -d.Milliseconds()).Err())
	}
}

// still keeps a real server's time for the sale where a model has it: what the
// test itself takes counts as nothing.
func (v *env) still(t testing.TB, sale string, now time.Duration) {
	t.Helper()
	if v.mini != nil {
		return
	}
	at := v.redisNow(t).UnixMilli() - now.Milliseconds()
	if v.zero == nil {
		v.zero = map[string]int64{}
	}
	for _, b := range v.buckets(sale) {
		key := b.headKey()
		if _, ok := v.zero[key]; !ok {
			epoch, err := v.client.HGet(t.Context(), key, "epoch").Int64()
			must(t, err)
			v.zero[key] = at - epoch
		}
		must(t, v.client.HSet(t.Context(), key, "epoch", at-v.zero[key]).Err())
	}
}

func (v *env) buckets(sale string) []bucket { return bucketsIn(v.store, sale) }

func bucketsIn(s *Store, sale string) []bucket {
	var all []bucket
	if e, ok := s.views.Load().bySale[sale]; ok {
		for _, c := range e.cells {
			all = append(all, c.bucket)
		}
	}
	return all
}

// bucket is the first one.
func (v *env) bucket(sale string) bucket { return v.buckets(sale)[0] }

// redisNow is the server's time.
func (v *env) redisNow(t testing.TB) time.Time {
	now, err := v.client.Time(t.Context()).Result()
	must(t, err)
	return now
}

// openSale preheats a sale that is open for an hour, after change.
func (v *env) openSale(t testing.TB, total int64, change func(*Sale)) Sale {
	t.Helper()
	sale := planned()
	sale.StartAt, sale.EndAt, sale.Total = time.Time{}, v.redisNow(t).Add(time.Hour), total
	if change != nil {
		change(&sale)
	}
	_, err := v.store.Preheat(t.Context(), sale)
	must(t, err)
	checkInvariant(t, v.store, sale.ID)
	return sale
}

const attempt = 2 * time.Second

func order(sale Sale, user string, quantity int64) Order {
	return Order{ID: NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: quantity, AttemptFor: attempt}
}

// reserve asks, re-checks the books and compares the code.
func (v *env) reserve(t testing.TB, o Order, want Code) Result {
	t.Helper()
	res, err := v.store.Reserve(t.Context(), o)
	must(t, err)
	if res.Code != want {
		t.Fatalf("reserve %s %d: code %d, want %d (%+v)", o.User, o.Quantity, res.Code, want, res)
	}
	checkInvariant(t, v.store, o.Sale)
	return res
}

// level compares free, reserved and confirmed.
func (v *env) level(t testing.TB, sale string, free, reserved, confirmed int64) {
	t.Helper()
	l, err := v.store.Level(t.Context(), sale)
	must(t, err)
	if l.Free != free || l.Reserved != reserved || l.Confirmed != confirmed {
		t.Fatalf("free %d reserved %d confirmed %d, want %d %d %d", l.Free, l.Reserved, l.Confirmed, free, reserved, confirmed)
	}
}

// checkInvariant proves the books after a step: counters, ledger, buyers, and
// that every open reservation stands in a list that will free or ask about it.
func checkInvariant(t testing.TB, s *Store, sale string) {
	t.Helper()
	ctx := context.Background()
	a, err := s.Audit(ctx, sale)
	must(t, err)
	if !a.OK {
		t.Fatalf("audit of %s: %v (%+v)", sale, a.Differences, a.Level)
	}
	l := a.Level
	if l.Total != l.Free+l.Reserved+l.Confirmed+l.OnLoan {
		t.Fatalf("the invariant is broken: %+v", l)
	}
	tag, listed := saleTag(sale), map[string]bool{}
	for _, b := range bucketsIn(s, sale) {
		asked, err := s.redis.HGet(ctx, b.headKey(), "asked").Int()
		must(t, err)
		for i, id := range s.redis.LRange(ctx, b.holdsKey(), 1, -1).Val() {
			listed[tag+id] = true
			listed[fmt.Sprint(tag, id, "#", 1)] = listed[fmt.Sprint(tag, id, "#", 1)] || i >= asked // a first attempt needs no other line
		}
		for _, id := range s.redis.LRange(ctx, b.extendedKey(), 1, -1).Val() {
			listed[tag+id] = true
		}
		for _, e := range s.redis.LRange(ctx, b.attemptsKey(), 1, -1).Val() {
			if f := strings.SplitN(e, " ", 3); len(f) == 3 { // '' has been worked off
				listed[fmt.Sprint(tag, f[1], "#", f[2])] = true
			}
		}
	}
	must(t, s.Ledger(ctx, sale, func(r Reservation) error {
		open := r.State == Reserved && !r.AttemptUntil.IsZero()
		asked := open && listed[fmt.Sprint(r.ID, "#", r.Attempt)]
		if r.State == Reserved && !listed[r.ID] && !asked {
			t.Fatalf("nobody will ever free %+v", r)
		}
		if open && !asked {
			t.Fatalf("nobody will ever ask about %+v", r)
		}
		return nil
	}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
