package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/redisd"
	"weir/internal/sampleshop"
	"weir/inventory"
)

// crowdSize is how many people want the 100 units at once.
func crowdSize() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 6000
	}
	return 2000
}

// crowd is many people, on two replicas of one stock.
type crowd struct {
	one, two *world
	people   []*person
	passes   []string
	orders   atomic.Int64 // buyers who were told that they have an order
	lost     atomic.Int64 // buyers who were told that all is sold
}

// gather starts two replicas and lets everybody solve before the rush.
func gather(t *testing.T, mode string, change func(*Config)) *crowd {
	t.Helper()
	c := quiet(t, mode)
	c.Captcha.Width, c.Captcha.Height = 200, 60
	c.Captcha.PassTTL = time.Hour
	c.Limits.Upstream = SharedLimit{Per: time.Second, Concurrency: 20, Scope: "cluster", Size: 1, Mode: "enforce"} // as in real life
	if change != nil {
		change(&c)
	}
	cr := &crowd{one: boot(t, c), two: boot(t, c)}
	cr.people, cr.passes = make([]*person, crowdSize()), make([]string, crowdSize())
	slots := make(chan struct{}, 32) // people solve over minutes, not in one instant
	cr.each(func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		w := cr.one
		if i%2 == 1 {
			w = cr.two
		}
		p := w.person(fmt.Sprintf("buyer-%d", i))
		pass, err := p.pass("demo")
		if err != nil {
			t.Errorf("buyer %d: %v", i, err)
		}
		cr.people[i], cr.passes[i] = p, pass
	})
	if t.Failed() {
		t.FailNow()
	}
	cr.one.invariant("demo")
	return cr
}

// each runs do for everybody at once and waits for all.
func (cr *crowd) each(do func(i int)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range crowdSize() {
		all.Go(func() { <-start; do(i) })
	}
	close(start)
	all.Wait()
}

// rush lets everybody buy until each has an order or knows that he gets none.
func (cr *crowd) rush(t *testing.T) {
	t.Helper()
	cr.each(func(i int) {
		if err := cr.buyUntilKnown(cr.people[i], cr.passes[i]); err != nil {
			t.Errorf("buyer %d: %v", i, err)
		}
	})
	cr.one.invariant("demo")
}

// buyUntilKnown presses buy until the answer is final. A buyer whom the
// shop refused, or did not take, gives up.
func (cr *crowd) buyUntilKnown(p *person, pass string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(90 * time.Second)
	for {
		r, err := p.do("POST", "/buy/1001", nil, withPass(pass))
		if err != nil {
			return err
		}
		switch {
		case r.status == http.StatusSeeOther, r.status == http.StatusOK:
			cr.orders.Add(1)
			return nil
		case r.code() == "sold_out":
			// The winner whose answer was lost is told where to look.
			if at := r.header.Get("Location"); at != "" {
				if look, err := p.do("GET", at, nil); err == nil && look.json()["state"] == "confirmed" {
					cr.orders.Add(1)
					return nil
				}
			}
			cr.lost.Add(1)
			return nil
		case r.status == http.StatusPaymentRequired, r.code() == "pass_spent", r.code() == "upstream_failed":
			cr.lost.Add(1)
			return nil
		case r.code() == "none_free_now", r.code() == "in_progress", r.code() == "upstream_unknown", r.status == http.StatusServiceUnavailable:
		default:
			return fmt.Errorf("unexpected: %s", r)
		}
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("no final answer, the last was %s", r)
		}
	}
}

// soldOut checks the end: 100 orders, each of another buyer and reservation,
// nothing free, nothing reserved, and every order confirmed in the ledger.
func (cr *crowd) soldOut(t *testing.T) {
	t.Helper()
	eventually(t, 60*time.Second, "every unknown is resolved", func() bool { return cr.one.invariant("demo").Reserved == 0 })
	l := cr.one.invariant("demo")
	orders := cr.one.orders()
	if len(orders) != 100 || l.Free != 0 || l.Confirmed != 100 {
		t.Fatalf("want 100 orders and nothing free, got %d orders, %+v", len(orders), l)
	}
	users := map[string]bool{}
	for _, o := range orders {
		users[o.User] = true
	}
	if len(users) != 100 {
		t.Errorf("100 orders are of %d users", len(users))
	}
	confirmed := map[string]bool{}
	err := cr.one.p.stock.Ledger(t.Context(), "demo", func(r inventory.Reservation) error {
		confirmed[r.ID] = r.State == inventory.Confirmed
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, o := range orders {
		if !confirmed[o.Reservation] {
			t.Errorf("order %s: its reservation is not confirmed", id)
		}
	}
	if got := cr.orders.Load(); got > 100 {
		t.Errorf("%d buyers were told that they have an order", got)
	}
}

func (cr *crowd) shopDoes(s sampleshop.Switches) {
	cr.one.p.shop.Set(s)
	cr.two.p.shop.Set(s)
}

func TestACrowdBuysExactlyWhatIsThere(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		cr := gather(t, mode, nil)
		cr.rush(t)
		cr.soldOut(t)
		if cr.orders.Load() != 100 || cr.orders.Load()+cr.lost.Load() != int64(crowdSize()) {
			t.Errorf("%d buyers have an order, %d none", cr.orders.Load(), cr.lost.Load())
		}
	})
}

func TestEveryRefusedUnitIsSoldToSomeoneElse(t *testing.T) {
	needRedis(t)
	cr := gather(t, redisd.ModeLocal, nil)
	cr.shopDoes(sampleshop.Switches{Refuse: http.StatusPaymentRequired, RefuseEvery: 3})
	cr.rush(t)
	cr.soldOut(t)
}

func TestAShopThatHangsUpSellsNoUnitTwice(t *testing.T) {
	needRedis(t)
	short := func(c *Config) {
		c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
		c.Sales[0].Hold = 4 * time.Second
	}
	for name, how := range map[string]string{"with the order made": sampleshop.HangUpAfter, "without an order": sampleshop.HangUpNoOrder} {
		t.Run(name, func(t *testing.T) {
			cr := gather(t, redisd.ModeLocal, short)
			cr.shopDoes(sampleshop.Switches{HangUp: how, HangUpEvery: 3})
			cr.rush(t)
			cr.soldOut(t)
		})
	}
}
