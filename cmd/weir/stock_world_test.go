package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/redistest"
	"weir/inventory"
)

// onNode is a configuration with an own folder on a server of the test kit.
func onNode(t *testing.T, n *redistest.Node) Config {
	c := quiet(t, "external")
	c.Redis.Stock.Addresses = []string{n.Addr()}
	return c
}

func onCluster(t *testing.T, r *redistest.RedisCluster) Config {
	c := quiet(t, "external")
	c.Redis.Stock.Addresses = r.Addrs()
	return c
}

func onSentinel(t *testing.T, s *redistest.RedisSentinel) Config {
	c := quiet(t, "external")
	o := s.Options()
	c.Redis.Stock.Addresses, c.Redis.Stock.Master = o.SentinelAddrs, o.MasterName
	return c
}

// careful are the settings that weir asks for where there are replicas.
func careful() []string {
	return []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"}
}

// logTo is a log that a test reads.
func logTo(buf *lockedBuffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(buf, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// bootHeard is boot with a log to read and secrets from an environment.
func bootHeard(t *testing.T, c Config, env map[string]string) (*world, *lockedBuffer) {
	t.Helper()
	apart(t)
	if faults := c.Validate(); len(faults) > 0 {
		t.Fatalf("the test's configuration: %v", faults)
	}
	return launch(t, c, env)
}

// launch is bootHeard for values that no file may have, such as times too short
// for real life.
func launch(t *testing.T, c Config, env map[string]string) (*world, *lockedBuffer) {
	t.Helper()
	secrets, err := c.Secrets(envOf(env))
	if err != nil {
		t.Fatal(err)
	}
	said := &lockedBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := start(ctx, c, secrets, logTo(said))
	if err != nil {
		cancel()
		t.Fatalf("start: %v\n%s", err, said)
	}
	w := &world{t: t, p: p, url: "http://" + p.public.Addr().String(), admin: "http://" + p.private.Addr().String(), cancel: cancel, done: make(chan error, 1)}
	go func() { w.done <- p.run(ctx) }()
	t.Cleanup(w.stop)
	return w, said
}

// whyNot is why a program does not start; "" when it does.
func whyNot(t *testing.T, c Config, env map[string]string) string {
	t.Helper()
	apart(t)
	secrets, err := c.Secrets(envOf(env))
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(t.Context(), c, secrets, slog.New(slog.DiscardHandler))
	if err != nil {
		return err.Error()
	}
	p.close()
	return ""
}

// weirSays runs the program's own verb against a running one.
func (w *world) weirSays(args ...string) (code int, out string) {
	w.t.Helper()
	args = append(args, "--admin", strings.TrimPrefix(w.admin, "http://"))
	code, out, errOut := command(w.t, map[string]string{"WEIR_ADMIN_TOKEN": w.token()}, args...)
	return code, out + errOut
}

// sells checks that somebody can buy.
func (w *world) sells(user string) {
	w.t.Helper()
	before := w.invariant("demo")
	if r := buyAs(w, user); r.status != http.StatusSeeOther {
		w.t.Fatalf("%s buys: %s", user, r)
	}
	if after := w.invariant("demo"); after.Free != before.Free-1 {
		w.t.Fatalf("one unit is sold: %+v, then %+v", before, after)
	}
}

// rush is a crowd that wants units at once, on several replicas, and what each
// was told.
type rush struct {
	worlds []*world
	people []*person
	passes []string

	mu     sync.Mutex
	won    map[string]string // reservation -> user, of those who were told that they won
	lost   int               // told that all is sold
	closed int               // told that the sale is paused, cancelled or over
	open   []int             // who has no final answer, those sent away included
}

// gatherRush lets everybody solve before the rush.
func gatherRush(t *testing.T, buyers int, worlds ...*world) *rush {
	t.Helper()
	r := &rush{worlds: worlds, people: make([]*person, buyers), passes: make([]string, buyers), won: map[string]string{}}
	slots := make(chan struct{}, 32)
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r.people[i] = worlds[i%len(worlds)].person(fmt.Sprint("buyer-", i))
			var err error
			if r.passes[i], err = r.people[i].pass("demo"); err != nil {
				t.Errorf("buyer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i := range buyers {
		r.open = append(r.open, i)
	}
	return r
}

// run lets all buy who have no final answer; once `after` have won, during
// happens, in the test's own goroutine. It returns when everybody knows.
func (r *rush) run(t *testing.T, after int, during func()) {
	t.Helper()
	var all sync.WaitGroup
	ctx, giveUp := context.WithCancel(t.Context())
	defer all.Wait() // also when the test is stopped in between
	defer giveUp()
	now := r.open
	r.open, r.closed = nil, 0
	for _, i := range now {
		all.Go(func() {
			if err := r.buy(ctx, i); err != nil && ctx.Err() == nil {
				t.Errorf("buyer %d: %v", i, err)
			}
		})
	}
	if during != nil {
		eventually(t, 60*time.Second, fmt.Sprint(after, " have won"), func() bool { return r.wins() >= after })
		during()
	}
	all.Wait()
}

func (r *rush) wins() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.won)
}

// buy presses the button, with the same pass, until the answer is final.
func (r *rush) buy(ctx context.Context, i int) error {
	p, pass := r.people[i], r.passes[i]
	again := []string{"none_free_now", "in_progress", "upstream_unknown", "inventory_unavailable", "outcome_unknown", "overloaded"}
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for {
		answer, err := p.do("POST", "/buy/1001", nil, withPass(pass))
		if err != nil {
			return err
		}
		if id, ok := winOf(answer); ok {
			r.mu.Lock()
			r.won[id] = p.user
			r.mu.Unlock()
			return nil
		}
		switch code := answer.code(); {
		case code == "sold_out", code == "pass_spent":
			r.mu.Lock()
			r.lost++
			r.mu.Unlock()
			return nil
		case code == "sale_paused", code == "sale_ended":
			r.mu.Lock()
			r.closed++
			r.open = append(r.open, i)
			r.mu.Unlock()
			return nil
		case !slices.Contains(again, code):
			return fmt.Errorf("unexpected: %s", answer)
		}
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("no final answer, the last was %s", answer)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// winOf is the reservation of an answer that says "you have it".
func winOf(r reply) (string, bool) {
	switch r.status {
	case http.StatusSeeOther:
		return r.header.Get("Weir-Reservation"), true
	case http.StatusOK:
		id, _ := r.json()["id"].(string)
		return id, true
	}
	return "", false
}

// states are the reservations of the sale as the ledger has them.
func (w *world) states() map[string]inventory.State {
	w.t.Helper()
	all := map[string]inventory.State{}
	err := w.p.stock.Ledger(context.Background(), "demo", func(r inventory.Reservation) error {
		all[r.ID] = r.State
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// missing are the units that buyers were told they have, and the ledger has not.
func (r *rush) missing(w *world) (ids []string) {
	states := w.states()
	for id := range r.won {
		if s := states[id]; s != inventory.Reserved && s != inventory.Confirmed {
			ids = append(ids, id)
		}
	}
	return ids
}

// settled waits until no unit is on hold or on the road.
func (w *world) settled() inventory.Level {
	w.t.Helper()
	eventually(w.t, 60*time.Second, "every unit is settled", func() bool {
		a, err := w.p.stock.Audit(context.Background(), "demo")
		return err == nil && a.OK && a.Level.Reserved+a.Level.OnLoan == 0
	})
	return w.invariant("demo")
}
