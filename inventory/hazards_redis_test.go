package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// The tests named TestStock_H… are the hazards of a stock in Redis, one each.
// Each says in a line what the hazard is, and why weir is not hit.

// linked starts a master and a replica whose link runs through a proxy.
func linked(t *testing.T) (master, replica *redistest.Node, link *redistest.Proxy) {
	t.Helper()
	master, replica = redistest.Single(t), redistest.Single(t)
	link = redistest.NewProxy(t, master.Addr())
	host, port, err := net.SplitHostPort(link.Addr())
	must(t, err)
	r := replica.Client(t)
	must(t, r.ConfigSet(t.Context(), "masteruser", "").Err())
	must(t, r.ConfigSet(t.Context(), "masterauth", "").Err())
	must(t, r.Do(t.Context(), "REPLICAOF", host, port).Err())
	eventually(t, "the replica is linked", func() bool {
		return strings.Contains(r.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return master, replica, link
}

// H-1: a failover forgets what only the master had. With Wait such an answer is
// "unknown" and never a win, also when it is asked for again.
func TestStock_H01_AWinThatNoReplicaHasIsNeverTold(t *testing.T) {
	master, replica, link := linked(t)
	ctx := t.Context()
	v := &env{client: master.Client(t)}
	waits := func(c *Config, _ *redis.Options) {
		c.Memory, c.Wait = false, Wait{Replicas: 1, Timeout: 100 * time.Millisecond}
	}
	v.store = v.replicaOf(t, "one", waits)
	sale := v.openSale(t, 20, nil)
	told := order(sale, "told", 1)
	eventually(t, "the replica keeps up", func() bool { _, err := v.store.Reserve(ctx, told); return err == nil })
	other := v.replicaOf(t, "two", waits) // on connections that wrote nothing of it
	must(t, other.Refresh(ctx))
	unknownTwice := func(o Order) {
		t.Helper()
		for _, s := range []*Store{v.store, other} {
			res, err := s.Reserve(ctx, o)
			if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable) || res.Granted {
				t.Fatalf("%+v, %v", res, err)
			}
		}
	}
	replica.Stop() // linked, and silent: a WAIT that covers no write would count it
	silent := order(sale, "silent", 1)
	unknownTwice(silent)
	replica.Cont()
	eventually(t, "the replica has it", func() bool { _, err := v.store.Reserve(ctx, silent); return err == nil })
	link.Refuse()
	var unknown []Order
	for i := range 3 {
		unknown = append(unknown, order(sale, fmt.Sprint("u", i), 1))
		unknownTwice(unknown[i])
	}
	v.level(t, sale.ID, 15, 5, 0) // on the master all five hold a unit
	master.Kill()

	heir := &env{client: replica.Client(t)}
	must(t, heir.client.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
	heir.store = newStore(t, heir.client, false)
	for _, o := range []Order{told, silent} {
		r, err := heir.store.Find(ctx, o.ID)
		heir.settled(t, sale, Reserved, nil, r, err)
	}
	for _, o := range unknown {
		if _, err := heir.store.Find(ctx, o.ID); !errors.Is(err, ErrUnknownReservation) {
			t.Fatalf("the failover lost nothing, so the test proves nothing: %v", err)
		}
	}
	got := ask(t, 40, func(i int) (*Store, Order) {
		if i < len(unknown) {
			return heir.store, unknown[i]
		}
		return heir.store, order(sale, fmt.Sprint("later", i), 1)
	})
	if got.wins() != 18 {
		t.Fatal(got)
	}
	heir.level(t, sale.ID, 0, 20, 0)
	checkInvariant(t, heir.store, sale.ID)
}

// stockKeys is every key of every bucket as it stands.
func stockKeys(t *testing.T, c redis.Cmdable) map[string]string {
	t.Helper()
	keys, err := c.Keys(t.Context(), "weir:{w*").Result()
	must(t, err)
	all := map[string]string{}
	for _, k := range keys {
		switch c.Type(t.Context(), k).Val() {
		case "list":
			all[k] = fmt.Sprintf("%q", c.LRange(t.Context(), k, 0, -1).Val())
		case "hash":
			all[k] = fmt.Sprintf("%q", c.HGetAll(t.Context(), k).Val())
		default:
			all[k] = c.Get(t.Context(), k).Val()
		}
	}
	return all
}

// H-8: a full server evicts stock, or runs a script half. Each script's first
// write needs memory, so a full one refuses it whole.
func TestStock_H08_AFullServerRefusesEveryStepAndForgetsNothing(t *testing.T) {
	v := realEnv(t)
	ctx := t.Context()
	sale := v.openSale(t, 40, func(s *Sale) { s.Buckets = 2 })
	v.won(t, sale, "due")
	v.advance(t, sale.ID, sale.Hold+time.Second)
	ann, bob := v.won(t, sale, "ann"), v.won(t, sale, "bob")
	_, err := v.store.Confirm(ctx, sale.ID, bob.ID, 1, "S-1")
	must(t, err)
	v.level(t, sale.ID, 37, 2, 1) // one hold is due, one is not, one is paid
	steps := map[string]func() error{
		"reserve":   func() error { _, err := v.store.Reserve(ctx, order(sale, "new", 1)); return err },
		"accept":    func() error { _, err := v.store.Accept(ctx, sale.ID, ann.ID, 1, "S-2"); return err },
		"extend":    func() error { _, err := v.store.Extend(ctx, sale.ID, ann.ID, time.Second); return err },
		"confirm":   func() error { _, err := v.store.Confirm(ctx, sale.ID, ann.ID, 1, "S-2"); return err },
		"release":   func() error { _, err := v.store.Release(ctx, sale.ID, ann.ID, 1); return err },
		"return":    func() error { _, err := v.store.Release(ctx, sale.ID, bob.ID, 0); return err },
		"tombstone": func() error { _, err := v.store.Release(ctx, sale.ID, NewOrderID(sale.ID, "x"), 0); return err },
		"sweep":     func() error { _, err := v.store.Sweep(ctx, sale.ID); return err },
		"lend":      func() error { _, err := v.lendBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 3}, 1); return err },
		"take in":   func() error { return v.acceptBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 3}, 1) },
	}
	before := stockKeys(t, v.client)
	v.fillUp(t)
	for name, step := range steps {
		if err := step(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%s: want a clear refusal, got %v", name, err)
		}
		if !maps.Equal(before, stockKeys(t, v.client)) {
			t.Fatalf("%s was refused and changed something", name)
		}
	}
	must(t, v.client.ConfigSet(ctx, "maxmemory", "0").Err())
	checkInvariant(t, v.store, sale.ID)
	for _, name := range []string{"release", "release", "return", "return", "sweep", "sweep"} {
		must(t, steps[name]())
	}
	v.level(t, sale.ID, 40, 0, 0)
	checkInvariant(t, v.store, sale.ID)
}

// fillUp leaves the server a megabyte above its limit.
func (v *env) fillUp(t *testing.T) {
	t.Helper()
	for i := range 32 {
		must(t, v.client.Set(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 64<<10), 0).Err())
	}
	var used int64
	for line := range strings.Lines(v.client.Info(t.Context(), "memory").Val()) {
		if _, err := fmt.Sscanf(line, "used_memory:%d", &used); err == nil {
			break
		}
	}
	must(t, v.client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used-1<<20)).Err())
}

// readings notes how the books of one sale are read: by which commands, and how
// much each of them brings.
type readings struct {
	books []string // keys
	mu    sync.Mutex
	most  map[string]int // entries of the largest answer, by command
	sum   int
}

func (r *readings) note(cmd redis.Cmder) {
	args := cmd.Args()
	if strings.HasPrefix(cmd.Name(), "eval") {
		return // scripts: see the second half of the test
	}
	if !slices.ContainsFunc(args[1:], func(a any) bool { return slices.Contains(r.books, fmt.Sprint(a)) }) {
		return
	}
	n := 0
	switch c := cmd.(type) {
	case *redis.ScanCmd:
		page, _ := c.Val()
		n = len(page) / 2
	case *redis.MapStringStringCmd:
		n = len(c.Val())
	case *redis.StringSliceCmd:
		n = len(c.Val())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most[cmd.Name()] = max(r.most[cmd.Name()], n)
	r.sum += n
}

func (r *readings) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *readings) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.note(cmd)
		return err
	}
}

func (r *readings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return err
	}
}

// slicedArchive notes how many reservations travel at once.
type slicedArchive struct {
	*caseArchive
	saves, most int
}

func (a *slicedArchive) Save(ctx context.Context, sale Sale, rows []Reservation) error {
	a.saves, a.most = a.saves+1, max(a.most, len(rows))
	return a.caseArchive.Save(ctx, sale, rows)
}

// H-17: one command that reads a ledger of many thousands holds up everybody.
// Every walk goes by HSCAN, the archive by slices, the end is UNLINK.
func TestStock_H17_ALargeLedgerIsReadInSlicesAndTheSaleGoesOn(t *testing.T) {
	const many = 20_000
	v := realEnv(t)
	ctx := t.Context()
	kept := &slicedArchive{caseArchive: newCaseArchive()}
	s := v.replicaOf(t, "reads", func(c *Config, _ *redis.Options) { c.Archive = kept })
	sale := v.openSale(t, 2*many, nil)
	must(t, s.Refresh(ctx))
	e, err := s.entry(ctx, sale.ID)
	must(t, err)
	for n := 0; n < many; n += maxBatch {
		aboard := make([]*passenger, min(maxBatch, many-n))
		for i := range aboard {
			aboard[i] = newPassenger(order(sale, fmt.Sprint("u", n+i), 1))
		}
		s.flight(ctx, e, e.cells[0], loan{}, aboard)
		must(t, aboard[0].err)
	}
	b := v.bucket(sale.ID)
	r := &readings{books: []string{b.ledgerKey(), b.buyersKey()}, most: map[string]int{}}
	s.redis.AddHook(r)
	met := 0
	must(t, s.Ledger(ctx, sale.ID, func(Reservation) error {
		if met++; met == many/2 { // in the middle of the walk
			v.won(t, sale, "meanwhile")
		}
		return nil
	}))
	a, err := s.Audit(ctx, sale.ID)
	must(t, err)
	if _, err := s.SetDesired(ctx, sale.ID, DesiredCancelled); err != nil || !a.OK || met < many {
		t.Fatalf("%+v, %d met, %v", a, met, err)
	}
	must(t, s.Cleanup(ctx, sale.ID))
	if got := slices.Sorted(maps.Keys(r.most)); fmt.Sprint(got) != "[hscan unlink]" {
		t.Errorf("the books were touched by %v", got)
	}
	// HSCAN gives whole buckets of its table, so a little more than was asked for.
	if r.most["hscan"] > 2*scanCount || r.sum < 4*many {
		t.Errorf("at most %d entries at once, %d in all", r.most["hscan"], r.sum)
	}
	if kept.most != ArchiveSlice || len(kept.rows) != many+1 {
		t.Errorf("%d rows in slices of up to %d", len(kept.rows), kept.most)
	}
	noScriptReadsABookWhole(t)
}

// noScriptReadsABookWhole: in a script only a bucket's head, whose fields are
// counted, and the tables of live replicas and of jobs are read whole.
func noScriptReadsABookWhole(t *testing.T) {
	t.Helper()
	whole := regexp.MustCompile(`'(?i:HGETALL|HKEYS|HVALS|HSCAN|KEYS|SCAN|SORT)', *([A-Za-z]+(?:\[\d\])?)|'LRANGE', *(\w+), *[^)]*-1\)`)
	found := map[string]bool{}
	must(t, fs.WalkDir(luaFiles, "lua", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := luaFiles.ReadFile(path)
		for _, m := range whole.FindAllStringSubmatch(string(src), -1) {
			found[strings.TrimPrefix(path, "lua/")+" "+m[1]+m[2]] = true
		}
		return err
	}))
	allowed := []string{"beat.lua KEYS[1]", "common.lua HEAD", "lease.lua KEYS[1]"}
	for what := range found {
		if !slices.Contains(allowed, what) {
			t.Errorf("read whole by a script: %s", what)
		}
	}
	if !found["common.lua HEAD"] {
		t.Errorf("the pattern finds nothing: %v", found)
	}
}
