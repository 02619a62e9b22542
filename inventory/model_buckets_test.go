package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// lend, accept, repair: the steps of loans, in any order.
func (h *crossing) loan(s *Store) {
	ctx := h.tb.Context()
	switch op := rapid.SampledFrom([]string{"lend", "lend", "again", "accept", "accept", "repair", "refresh"}).Draw(h.t, "loan"); {
	case op == "lend":
		from := rapid.IntRange(0, h.n-1).Draw(h.t, "from")
		to := (from + rapid.IntRange(1, h.n-1).Draw(h.t, "to")) % h.n
		l := loan{id: newLoanID(), units: rapid.Int64Range(1, 3).Draw(h.t, "units"), from: from}
		n, err := h.v.lendBy(h.tb, s, h.sale.ID, l, to)
		must(h.tb, err)
		if l.units = n; n > 0 {
			h.loans, h.to = append(h.loans, l), append(h.to, to)
		}
	case op == "again" && len(h.loans) > 0:
		i := rapid.IntRange(0, len(h.loans)-1).Draw(h.t, "which")
		n, err := h.v.lendBy(h.tb, s, h.sale.ID, h.loans[i], h.to[i])
		must(h.tb, err)
		h.want(n == h.loans[i].units, n)
	case op == "accept" && len(h.loans) > 0: // perhaps a second time
		i := rapid.IntRange(0, len(h.loans)-1).Draw(h.t, "which")
		must(h.tb, h.v.acceptBy(h.tb, s, h.sale.ID, h.loans[i], h.to[i]))
	case op == "repair":
		must(h.tb, s.repair(ctx, h.sale.ID))
		h.home()
	case op == "refresh":
		must(h.tb, s.Refresh(ctx))
		must(h.tb, s.Refresh(ctx))
		h.home()
	}
}

// home: no loan may be on the road now.
func (h *crossing) home() {
	l, err := h.v.store.Level(h.tb.Context(), h.sale.ID)
	must(h.tb, err)
	h.want(l.OnLoan == 0, l)
}

func (h *crossing) sweepOn(s *Store) {
	swept, err := s.Sweep(h.tb.Context(), h.sale.ID)
	must(h.tb, err)
	for _, r := range swept.Ask {
		k := h.m.orders[r.ID]
		h.want(k != nil && k.state == Reserved && k.till != 0 && k.till <= h.m.now, r)
		h.asked[r.ID] = h.m.now
	}
	h.follow()
	for id, k := range h.m.orders {
		h.want(k.state != Reserved || !h.m.mayFree(k), k) // a sweep leaves no due one behind
		due := k.state == Reserved && k.till != 0 && k.till+3*time.Second <= h.m.now
		h.want(!due || h.asked[id]+3*time.Second > h.m.now, k)
	}
}

func (h *crossing) step() {
	ctx := h.tb.Context()
	h.v.still(h.tb, h.sale.ID, h.m.now)
	s, f := h.store()
	o := rapid.SampledFrom(h.order).Draw(h.t, "order")
	n := rapid.IntRange(0, 2).Draw(h.t, "attempt")
	switch op := rapid.SampledFrom([]string{
		"reserve", "reserve", "reserve", "lost", "accept", "confirm", "confirm", "release", "expire", "sweep", "pass", "pass",
		"extend", "stuck", "restore", "desire", "loan", "loan", "loan", "other",
	}).Draw(h.t, "op"); op {
	case "other":
		o.Quantity++ // another order under a known id
		if _, known := h.m.orders[o.ID]; !known {
			return
		}
		h.reserve(s, o)
	case "reserve":
		h.reserve(s, o)
	case "lost":
		h.lost(s, f, o)
	case "accept":
		_, err := s.Accept(ctx, h.sale.ID, o.ID, n, "")
		h.same(op, err, h.m.accept(o.ID, n))
	case "confirm":
		h.confirm(s, o.ID, n)
	case "release":
		_, err := s.Release(ctx, h.sale.ID, o.ID, n)
		h.same(op, err, h.m.release(o, n))
	case "expire":
		_, err := s.Expire(ctx, h.sale.ID, o.ID)
		h.same(op, err, h.m.expire(o.ID))
	case "extend":
		h.extendOn(s, o)
	case "stuck":
		h.same(op, s.MarkStuck(ctx, h.sale.ID, o.ID), h.m.stuck(o.ID))
	case "restore":
		h.restoreOn(s, o)
	case "desire":
		h.desire(s)
	case "sweep":
		h.sweepOn(s)
	case "loan":
		h.loan(s)
	case "pass":
		d := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 31 * time.Second}).Draw(h.t, "time")
		h.v.advance(h.tb, h.sale.ID, d)
		h.m.now += d
	}
}

// extendOn: each bucket has its own line of extended holds, so the deadline is
// read from the answer.
func (h *crossing) extendOn(s *Store, o Order) {
	const by = 20 * time.Second
	h.m.lastExt = 0
	was := h.m.orders[o.ID]
	first := was != nil && was.state == Reserved && !was.pays && was.due > h.m.now
	r, err := s.Extend(h.tb.Context(), h.sale.ID, o.ID, by)
	h.same("extend", err, h.m.extend(o.ID, by))
	if first {
		was.due += h.later(s, r, was)
	}
}

// later is how much later a deadline is than the model says, in whole seconds:
// more only where an earlier one in the same line forces it.
func (h *crossing) later(s *Store, r Reservation, k *modelOrder) time.Duration {
	e, err := s.entry(h.tb.Context(), h.sale.ID)
	must(h.tb, err)
	heads, err := s.readHeads(h.tb.Context(), e.live)
	must(h.tb, err)
	now := heads[r.Bucket].at
	if h.v.mini != nil {
		now = h.v.now.UnixMilli()
	}
	d := time.Duration(r.ExpiresAt.UnixMilli()-now)*time.Millisecond - (k.due - h.m.now)
	h.want(d > -400*time.Millisecond, r) // the real clock went on
	return d.Round(time.Second)
}

func (h *crossing) desire(s *Store) {
	d := rapid.SampledFrom([]Desired{DesiredOn, DesiredOn, DesiredOn, DesiredPaused, DesiredCancelled}).Draw(h.t, "desired")
	_, err := s.SetDesired(h.tb.Context(), h.sale.ID, d)
	h.same("desire", err, h.m.desire(d))
	if err == nil && d != DesiredOn {
		h.home()
	}
}

// follow proves the books and takes over what scripts freed by themselves.
func (h *crossing) follow() {
	l := checkBooks(h.tb, h.v.store, h.sale.ID)
	h.road = l.OnLoan
	seen := 0
	err := h.v.store.Ledger(h.tb.Context(), h.sale.ID, func(r Reservation) error {
		seen++
		k := h.m.orders[r.ID]
		if k != nil && r.State == Expired && k.state == Reserved && h.m.mayFree(k) {
			k.state, k.till = Expired, 0
		}
		if k == nil || k.state != r.State || k.attempt != r.Attempt {
			return fmt.Errorf("%+v, want %+v", r, k)
		}
		return nil
	})
	if err != nil || seen != len(h.m.orders) {
		h.t.Fatalf("%v; %d in the ledgers, %d in the model", err, seen, len(h.m.orders))
	}
}

// begin opens a sale of n buckets with two units each to sell.
func (h *crossing) begin(number int, expiry Expiry) {
	h.sale = h.v.openSale(h.tb, int64(10*h.n), func(s *Sale) {
		s.ID, s.Item, s.Buckets = fmt.Sprint("s", number), fmt.Sprint("i", number), h.n
		s.Expiry, s.BuyerLimit, s.Hold, s.MaxQuantity = expiry, 3, 60500*time.Millisecond, 10
		s.EndAt = s.EndAt.Add(1000 * time.Hour)
	})
	h.m = newModel(h.sale)
	for i := range h.n {
		o := order(h.sale, "", 8)
		for home(o.ID, h.n) != i {
			o.ID = NewOrderID(h.sale.ID, "")
		}
		h.v.reserve(h.tb, o, Taken)
		_, err := h.v.store.Confirm(h.tb.Context(), h.sale.ID, o.ID, 1, "")
		must(h.tb, err)
		h.m.orders[o.ID] = &modelOrder{Order: o, state: Confirmed, attempt: 1}
	}
	for i := range 12 {
		o := order(h.sale, string(rune('a'+i%5)), int64(1+i%3))
		o.AttemptFor = 2500 * time.Millisecond
		h.order = append(h.order, o)
	}
}

// replicas are made anew for each history, on connections that last.
func (h *crossing) replicas(clients []redis.UniversalClient) {
	for i, c := range clients {
		s := replicaNamed(h.tb, c, h.v.real == nil, fmt.Sprint("r", i))
		must(h.tb, s.Refresh(h.tb.Context()))
		must(h.tb, c.Ping(h.tb.Context()).Err())
		h.stores = append(h.stores, s)
	}
}

// TestModel_SeveralBucketsAndReplicasAgreeWithIt: 8 histories of each expiry
// on miniredis and 48 on a real server, about 30 steps each, with loans and faults
// between, the books proved after every step.
func TestModel_SeveralBucketsAndReplicasAgreeWithIt(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		v.histories(t, 8)
		number := 0
		faults, clients := make([]*fault, 3), make([]redis.UniversalClient, 3)
		for i := range faults {
			faults[i] = &fault{from: never}
			clients[i] = v.faulty(t, faults[i]).redis
		}
		for _, expiry := range []Expiry{ExpiryFree, ExpiryAsk} {
			t.Run(string(expiry), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					number++
					v.fresh(t)
					h := &crossing{history: history{t: rt, tb: t, v: v}, faults: faults, asked: map[string]time.Duration{}}
					h.n = rapid.IntRange(2, 4).Draw(rt, "buckets")
					h.begin(number, expiry)
					h.replicas(clients)
					h.follow()
					for range rapid.IntRange(10, 50).Draw(rt, "steps") {
						h.step()
						h.follow()
					}
				})
			})
		}
	})
}
