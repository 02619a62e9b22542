package inventory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// everyScript leads a sale of five buckets through its whole life, so that each
// script runs at least once and succeeds.
func everyScript(t *testing.T, c redis.UniversalClient, memory bool) {
	t.Helper()
	ctx := t.Context()
	log := newScriptLog(t)
	c.AddHook(log)
	s, err := New(Config{Redis: c, Memory: memory, Replica: "whole", Log: slog.New(slog.DiscardHandler), Archive: newCaseArchive(), Quota: newQuotaShop()})
	must(t, err)
	sale := preheatedTwice(t, s)
	v := &env{store: s}
	oneOfEach(t, v, sale)
	if !memory { // another run of the server
		for _, b := range v.buckets(sale.ID) {
			must(t, c.HSet(ctx, b.headKey(), "run", "0").Err())
		}
		v.won(t, sale, "rearmed")
	}
	_, err = s.SetDesired(ctx, sale.ID, DesiredCancelled)
	must(t, err)
	checkInvariant(t, s, sale.ID)
	must(t, s.Cleanup(ctx, sale.ID))
	e, err := s.entry(ctx, sale.ID)
	must(t, err)
	_, text, err := s.readRecord(ctx, sale.ID)
	must(t, errors.Join(err, s.mendQuotas(ctx), s.retire(ctx, e, text)))
	for sha, name := range log.names {
		if !log.ran[name] && (!memory || name != "bucket_rearm") {
			t.Errorf("%s (%s) did not run", name, sha)
		}
	}
}

func preheatedTwice(t *testing.T, s *Store) Sale {
	t.Helper()
	ctx := t.Context()
	now, err := s.redis.Time(ctx).Result()
	must(t, err)
	sale := planned()
	sale.Total, sale.Buckets, sale.MaxQuantity = 50, 5, 50
	sale.StartAt, sale.EndAt = now.Add(time.Hour), now.Add(2*time.Hour)
	drafts, err := NewDrafts(s)
	must(t, err)
	_, err = drafts.Create(ctx, sale)
	must(t, err)
	_, err = drafts.Delete(ctx, sale.ID, []string{AnyPlan})
	must(t, err)
	_, err = s.Preheat(ctx, sale)
	must(t, err)
	sale.Version, sale.StartAt = 2, time.Time{}
	_, err = s.Preheat(ctx, sale)
	must(t, err)
	return sale
}

// oneOfEach settles an order in every way, and has units travel.
func oneOfEach(t *testing.T, v *env, sale Sale) {
	t.Helper()
	ctx, s := t.Context(), v.store
	level := func(free, reserved, confirmed int64) {
		t.Helper()
		v.level(t, sale.ID, free, reserved, confirmed)
		checkInvariant(t, s, sale.ID)
	}
	o := v.won(t, sale, "ann")
	level(49, 1, 0)
	for _, b := range v.buckets(sale.ID) { // an audit looks it up
		if n := s.redis.LRem(ctx, b.holdsKey(), 1, shorten(o.ID)).Val(); n == 1 {
			v.differs(t, sale.ID, o.ID)
			must(t, s.redis.RPush(ctx, b.holdsKey(), shorten(o.ID)).Err())
		}
	}
	_, err := s.Release(ctx, sale.ID, o.ID, 1)
	must(t, err)
	level(50, 0, 0) // the way back works
	big := order(sale, "bulk", 40)
	res, err := s.Reserve(ctx, big)
	must(t, err)
	if !res.Granted {
		t.Fatalf("%+v", res)
	}
	_, err1 := s.Accept(ctx, sale.ID, big.ID, 1, "S")
	_, err2 := s.Extend(ctx, sale.ID, big.ID, time.Second)
	err3 := s.MarkStuck(ctx, sale.ID, big.ID)
	_, err4 := s.Sweep(ctx, sale.ID)
	_, err5 := s.Find(ctx, big.ID)
	must(t, errors.Join(err1, err2, err3, err4, err5))
	if _, err := s.Expire(ctx, sale.ID, big.ID); !errors.Is(err, ErrNotAllowed) {
		t.Fatal(err)
	}
	_, err = s.Restore(ctx, res.Reservation)
	must(t, err)
	level(10, 40, 0)
	_, err = s.Confirm(ctx, sale.ID, big.ID, 0, "S")
	must(t, err)
	level(10, 0, 40)
	_, err = s.Release(ctx, sale.ID, big.ID, 0)
	must(t, err)
	level(50, 0, 0)
}

func TestStock_T16_EveryScriptRunsAndTheWayBackWorks(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) { everyScript(t, v.client, v.real == nil) })
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// keysWatch reads a server's MONITOR and holds every call of a script to the
// KEYS that the script was given.
type keysWatch struct {
	checked atomic.Int64
	mu      sync.Mutex
	keys    []string // of the script that runs
	faults  []string
}

func watchKeys(t *testing.T, socket string) *keysWatch {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	must(t, err)
	w := &keysWatch{}
	in := bufio.NewReaderSize(conn, 1<<20)
	_, err = in.ReadString('\n') // +OK
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			w.line(line)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return w
}

func (w *keysWatch) line(line string) {
	var f []string
	for _, q := range quoted.FindAllString(line, 16) {
		if text, err := strconv.Unquote(q); err == nil {
			f = append(f, text)
		}
	}
	if len(f) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	inScript := strings.Contains(line[:strings.Index(line, `"`)], " lua]")
	switch {
	case !inScript && strings.HasPrefix(strings.ToLower(f[0]), "eval") && len(f) > 2:
		n, _ := strconv.Atoi(f[2])
		w.keys = f[3:min(3+n, len(f))]
		once := map[int]bool{}
		for _, k := range w.keys {
			once[slotOf(k[strings.Index(k, "{")+1:strings.Index(k, "}")])] = true
		}
		if len(once) != 1 {
			w.faults = append(w.faults, "keys in several slots: "+line)
		}
	case inScript && len(f) > 1 && !slices.Contains([]string{"time", "info"}, strings.ToLower(f[0])):
		w.checked.Add(1)
		if !slices.Contains(w.keys, f[1]) {
			w.faults = append(w.faults, "a key that is not in KEYS: "+line)
		}
	}
}

func (w *keysWatch) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults[:min(len(w.faults), 8)] {
		t.Error(f)
	}
}

func TestStock_T33_EveryScriptOnAClusterKeepsToItsSlot(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	var watches []*keysWatch
	for _, n := range c.Nodes() {
		watches = append(watches, watchKeys(t, n.Socket()))
	}
	everyScript(t, c.Client(t, nil), false)
	t.Run("a storm over three masters", func(t *testing.T) { clusterStorm(t, c) })
	t.Run("a lost reply", func(t *testing.T) { clusterLostReply(t, c) })
	for i, w := range watches {
		eventually(t, "the monitor has seen scripts", func() bool { return w.checked.Load() > 50 })
		w.report(t)
		if t.Failed() {
			t.Fatalf("node %d", i)
		}
	}
	bad := planned()
	bad.ID = "a{b}c"
	if err := bad.Validate(); !errors.Is(err, ErrInvalidSale) {
		t.Error("a sale's id with braces would choose its own slot")
	}
}

func clusterSale(t *testing.T, s *Store, id string) Sale {
	t.Helper()
	now, err := s.redis.Time(t.Context()).Result()
	must(t, err)
	sale := planned()
	sale.ID, sale.Item, sale.Total, sale.StartAt, sale.EndAt = id, id, 60, time.Time{}, now.Add(time.Hour)
	_, err = s.Preheat(t.Context(), sale)
	must(t, err)
	return sale
}

func clusterStorm(t *testing.T, c *redistest.RedisCluster) {
	stores := []*Store{newStore(t, c.Client(t, nil), false), newStore(t, c.Client(t, nil), false)}
	sale := clusterSale(t, stores[0], "storm")
	masters := map[*redistest.Node]bool{}
	for _, b := range bucketsIn(stores[0], sale.ID) {
		n, _ := c.MasterOfKey(b.headKey())
		masters[n] = true
	}
	if len(masters) != 3 {
		t.Fatalf("the buckets lie on %d of 3 masters", len(slices.Collect(maps.Keys(masters))))
	}
	o := order(sale, "twice", 1)
	got := ask(t, 120, func(i int) (*Store, Order) {
		if i < 20 {
			return stores[i%2], o
		}
		return stores[i%2], order(sale, fmt.Sprint("u", i), 1)
	})
	// One of the twenty wins, if it comes in time; then the others know it.
	if n := got.wins(); n != 60 {
		t.Fatal(got)
	}
	checkInvariant(t, stores[0], sale.ID)
	v := &env{store: stores[0]}
	v.level(t, sale.ID, 0, 60, 0)
}

func clusterLostReply(t *testing.T, c *redistest.RedisCluster) {
	p := redistest.ProxyCluster(t, c)
	s := newStore(t, p.Client(t, nil), false)
	sale := clusterSale(t, s, "lost")
	v := &env{store: s}
	v.won(t, sale, "warm")
	o := order(sale, "ann", 1)
	before := p.Count("EVALSHA")
	lost := p.DropReply("EVALSHA", 1)
	_, err := s.Reserve(t.Context(), o)
	sent := p.Count("EVALSHA") - before
	if lost.Hits() != 1 || sent != 1 || !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("%d hits, sent %d times: %v", lost.Hits(), sent, err)
	}
	res, err := s.Reserve(t.Context(), o)
	must(t, err)
	if res.Code != Known && res.Code != Taken { // it may have been the script's first call on that master
		t.Fatalf("%+v", res)
	}
	v.level(t, sale.ID, 58, 2, 0)
}

// TestStock_T31: ten units are sold on a master whose replica is behind; then
// the master dies and the replica takes its place.
func TestStock_T31_ALossInAFailoverIsFoundAndNeverOversold(t *testing.T) {
	for _, buckets := range []int{1, 5} {
		t.Run(fmt.Sprint(buckets, " buckets"), func(t *testing.T) {
			master, replica := redistest.Replicated(t)
			var target atomic.Pointer[redistest.Node]
			target.Store(master)
			connect := func() *redis.Client {
				o := master.Options()
				o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "tcp", target.Load().Addr())
				}
				c := redis.NewClient(o)
				t.Cleanup(func() { c.Close() })
				return c
			}
			v := &env{client: connect()}
			v.store = newStore(t, v.client, false)
			sale := v.openSale(t, 50, func(s *Sale) { s.Buckets = buckets })
			v.won(t, sale, "before")
			behind := replica.Client(t)
			eventually(t, "the replica has all of it", func() bool {
				for _, b := range v.buckets(sale.ID) {
					want, err := v.client.HGet(t.Context(), b.headKey(), "seq").Result()
					must(t, err)
					if got, _ := behind.HGet(t.Context(), b.headKey(), "seq").Result(); got != want {
						return false
					}
				}
				return true
			})
			heal := redistest.CutReplication(t, replica)
			defer heal()
			var won []Order
			for i := range 10 {
				won = append(won, v.won(t, sale, fmt.Sprint("u", i)))
			}
			master.Kill()
			must(t, behind.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
			target.Store(replica)
			v.afterTheFailover(t, sale, won)
		})
	}
}

func (v *env) afterTheFailover(t *testing.T, sale Sale, won []Order) {
	t.Helper()
	ctx := t.Context()
	eventually(t, "the new master is asked", func() bool { return v.store.Refresh(ctx) == nil })
	// The first to ask about a bucket arms it, and finds the gap.
	res, err := v.store.Reserve(ctx, order(sale, "u0", 1))
	must(t, err)
	must(t, v.store.Refresh(ctx))
	view, _ := v.store.View(sale.ID)
	if res.Code != NotRunning || view.Desired != DesiredPaused || view.Reason != gapReason || v.store.Stats().Lost == 0 {
		t.Fatalf("the loss went unnoticed: %+v, %+v", res, view)
	}
	for _, o := range won { // each bucket is armed by its first order
		res, err := v.store.Reserve(ctx, o)
		must(t, err)
		if res.Code != Known || res.Reservation.State != Reserved {
			t.Fatalf("a win that this replica had answered is gone: %+v", res)
		}
	}
	must(t, v.store.Refresh(ctx))
	checkInvariant(t, v.store, sale.ID)
	v.level(t, sale.ID, 39, 11, 0)
	_, err = v.store.SetDesired(ctx, sale.ID, DesiredOn)
	must(t, err)
	got := ask(t, 60, func(i int) (*Store, Order) { return v.store, order(sale, fmt.Sprint("later", i), 1) })
	if got.wins() != 39 {
		t.Fatal(got)
	}
	v.level(t, sale.ID, 0, 50, 0)
}
