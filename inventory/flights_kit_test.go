package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// gate is a hook that holds reserve scripts back before they are sent, and
// notes how many orders each carried.
type gate struct {
	sha string

	mu      sync.Mutex
	shut    chan struct{} // nil: open
	carried []int
	held    int
	most    int // on their way at once
	callers []any
}

// callerKey marks a context, to see whose time a script runs on.
type callerKey struct{}

func (g *gate) enter(ctx context.Context, orders int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.carried = append(g.carried, orders)
	g.callers = append(g.callers, ctx.Value(callerKey{}))
	g.held++
	g.most = max(g.most, g.held)
	return g.shut
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held--
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.carried, g.most = make(chan struct{}), nil, 0
}

// step lets those pass that are held now; later ones are held again.
func (g *gate) step() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *gate) state() (held, most int, carried []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held, g.most, append([]int(nil), g.carried...)
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a := cmd.Args(); len(a) < 2 || a[1] != g.sha {
			return next(ctx, cmd)
		}
		// evalsha, digest, 8, eight keys, three of the fence and three of a loan
		if shut := g.enter(ctx, (len(cmd.Args())-17)/3); shut != nil {
			<-shut
		}
		defer g.leave()
		return next(ctx, cmd)
	}
}

// runway is a sale whose flights a test holds back.
type runway struct {
	t     *testing.T
	v     *env
	s     *Store
	g     *gate
	proxy *redistest.Proxy
	sale  Sale
	clear []func() // ends the two that hold the runway
	wg    sync.WaitGroup
}

func newRunway(t *testing.T, v *env, total int64, change func(*Sale)) *runway {
	t.Helper()
	r := &runway{t: t, v: v, sale: v.openSale(t, total, change)}
	v.cacheScripts(t, r.sale)
	r.s, r.proxy = v.throughProxy(t, func(_ *Config, o *redis.Options) { o.ReadTimeout = 10 * time.Second })
	r.g = &gate{sha: r.s.scripts.reserve.sha}
	r.s.redis.AddHook(r.g)
	must(t, r.s.Refresh(t.Context()))
	return r
}

// block puts two orders on their way and holds them there. Neither reaches
// Redis: its caller has left when the gate opens.
func (r *runway) block() {
	r.t.Helper()
	r.g.close()
	r.clear = nil
	for i := range maxFlights {
		ctx, cancel := context.WithCancel(r.t.Context())
		r.clear = append(r.clear, cancel)
		r.wg.Go(func() {
			_, err := r.s.Reserve(ctx, order(r.sale, "blocker", 1))
			if !errors.Is(err, ErrUnavailable) {
				r.t.Errorf("a blocker that was never sent: %v", err)
			}
		})
		eventually(r.t, "it is on its way", func() bool { held, _, _ := r.g.state(); return held == i+1 })
	}
	for _, cancel := range r.clear {
		cancel()
	}
}

// ticket is an order that waits for a flight.
type ticket struct {
	order Order
	leave context.CancelFunc
	done  chan struct{}
	res   Result
	err   error
}

// queue has these orders wait, in this order.
func (r *runway) queue(orders ...Order) []*ticket {
	r.t.Helper()
	var all []*ticket
	for _, o := range orders {
		ctx, cancel := context.WithCancel(r.t.Context())
		r.t.Cleanup(cancel)
		k := &ticket{order: o, leave: cancel, done: make(chan struct{})}
		all = append(all, k)
		before := r.waiting()
		r.wg.Go(func() {
			defer close(k.done)
			k.res, k.err = r.s.Reserve(ctx, o)
		})
		r.until("it waits", func() bool { return r.waiting() == before+1 })
	}
	return all
}

// until is eventually for what happens within microseconds, hundreds of times.
func (r *runway) until(what string, ok func() bool) {
	for range 1000 {
		if ok() {
			return
		}
		tick := time.NewTimer(20 * time.Microsecond)
		<-tick.C
	}
	eventually(r.t, what, ok)
}

func (r *runway) waiting() (n int) {
	e := r.s.views.Load().bySale[r.sale.ID]
	for _, c := range e.cells {
		c.flights.mu.Lock()
		n += len(c.flights.waiting)
		c.flights.mu.Unlock()
	}
	return n
}

// fly opens the gate and waits for all; it returns how many orders each
// flight carried that was no blocker.
func (r *runway) fly() []int {
	r.t.Helper()
	r.g.open()
	r.wg.Wait()
	_, _, carried := r.g.state()
	return carried[maxFlights:]
}

func codes(t *testing.T, all []*ticket) (list []Code) {
	t.Helper()
	for _, k := range all {
		must(t, k.err)
		list = append(list, k.res.Code)
	}
	return list
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}
