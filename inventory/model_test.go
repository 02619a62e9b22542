package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the stock in plain Go: what the scripts must do, without Redis.
type model struct {
	sale                      Sale
	now                       time.Duration
	free, reserved, confirmed int64
	buyers                    map[string]int64
	orders                    map[string]*modelOrder
	holds                     []string
	asks                      []modelAsk
	lastAsk                   time.Duration
}

type modelOrder struct {
	Order
	state     State
	due, till time.Duration // till 0 = closed
	attempt   int
}

type modelAsk struct {
	id      string
	attempt int
	until   time.Duration
}

func newModel(s Sale) *model {
	// now starts past 0, which means "closed" in till.
	return &model{sale: s, now: time.Hour, free: s.Total, buyers: map[string]int64{}, orders: map[string]*modelOrder{}}
}

func (m *model) close(o *modelOrder, to State) {
	if o.state == Reserved {
		m.reserved -= o.Quantity
	} else {
		m.confirmed -= o.Quantity
	}
	m.free += o.Quantity
	m.buyers[o.User] -= o.Quantity
	o.state, o.till = to, 0
}

func (m *model) mayFree(o *modelOrder) bool {
	return o.state == Reserved && o.due <= m.now && (m.sale.Expiry == ExpiryFree || o.till == 0)
}

func (m *model) freeDue(want int64) {
	for m.free < want && len(m.holds) > 0 {
		o := m.orders[m.holds[0]]
		if o.state == Reserved && o.due > m.now {
			return
		}
		m.holds = m.holds[1:]
		if m.mayFree(o) {
			m.close(o, Expired)
		}
	}
}

func (m *model) watch(o *modelOrder, until time.Duration) {
	m.lastAsk = max(m.lastAsk, until)
	m.asks = append(m.asks, modelAsk{o.ID, o.attempt, m.lastAsk})
}

func (m *model) reserve(o Order) (code Code, granted bool) {
	if k, ok := m.orders[o.ID]; ok {
		return m.repeat(k, o)
	}
	over := func() bool { return m.buyers[o.User]+o.Quantity > m.sale.BuyerLimit }
	if over() {
		m.freeDue(maxUnits + 1)
		if over() {
			return BuyerLimit, false
		}
	}
	m.freeDue(o.Quantity)
	switch {
	case m.free == 0 && m.reserved > 0:
		return NoneFreeNow, false
	case m.free < o.Quantity:
		return NotEnough, false
	}
	k := &modelOrder{Order: o, state: Reserved, due: m.now + m.sale.Hold, till: m.now + o.AttemptFor, attempt: 1}
	m.orders[o.ID] = k
	m.free -= o.Quantity
	m.reserved += o.Quantity
	m.buyers[o.User] += o.Quantity
	m.holds = append(m.holds, o.ID)
	m.watch(k, k.till)
	if m.free == 0 {
		return TakenLast, true
	}
	return Taken, true
}

func (m *model) repeat(k *modelOrder, o Order) (Code, bool) {
	switch {
	case k.state == Cancelled:
		return Tombstoned, false
	case k.User != o.User || k.Quantity != o.Quantity:
		return Mismatch, false
	case m.mayFree(k):
		m.close(k, Expired)
	case k.state == Reserved && k.till != 0 && k.till <= m.now && k.due-m.now >= o.AttemptFor:
		k.attempt++
		k.till = m.now + o.AttemptFor
		m.watch(k, k.till)
		return Known, true
	}
	return Known, false
}

// foreign: the caller names an attempt that is not the current one.
func (k *modelOrder) foreign(attempt int) bool { return attempt > 0 && attempt != k.attempt }

func (m *model) accept(id string, attempt int) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Confirmed:
		return nil
	case k.state != Reserved:
		return ErrNotAllowed
	case k.foreign(attempt):
		return ErrAttemptOver
	}
	if k.till != 0 && k.due <= m.now {
		m.holds = append([]string{id}, m.holds...)
	}
	k.till = 0
	return nil
}

func (m *model) confirm(id string, attempt int) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Confirmed || k.state == RefundDue:
		return nil
	case k.state != Reserved && k.state != Expired:
		return ErrNotAllowed
	case k.foreign(attempt):
		return ErrAttemptOver
	}
	if k.state == Expired {
		m.freeDue(k.Quantity)
		if m.free < k.Quantity || m.buyers[k.User]+k.Quantity > m.sale.BuyerLimit {
			k.state = RefundDue
			return nil
		}
		m.free -= k.Quantity
		m.buyers[k.User] += k.Quantity
	} else {
		m.reserved -= k.Quantity
	}
	m.confirmed += k.Quantity
	k.state, k.till = Confirmed, 0
	return nil
}

func (m *model) release(o Order, attempt int) error {
	k, ok := m.orders[o.ID]
	switch {
	case !ok:
		m.orders[o.ID] = &modelOrder{Order: o, state: Cancelled}
		return nil
	case k.state == Reserved && k.foreign(attempt):
		return ErrAttemptOver
	case k.state == Reserved:
		m.close(k, Released)
	case k.state == Confirmed && attempt == 0:
		m.close(k, Returned)
	case k.state != Released && k.state != Returned && k.state != Cancelled:
		return ErrNotAllowed
	}
	return nil
}

func (m *model) expire(id string) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Expired:
		return nil
	case k.state != Reserved || k.due > m.now:
		return ErrNotAllowed
	}
	m.close(k, Expired)
	return nil
}

func (m *model) sweep() (freed int64, ask []string) {
	before := m.free
	m.freeDue(maxUnits + 1)
	for len(m.asks) > 0 && m.asks[0].until <= m.now {
		a := m.asks[0]
		m.asks = m.asks[1:]
		k := m.orders[a.id]
		if k.state == Reserved && k.till != 0 && k.attempt == a.attempt {
			m.watch(k, m.now+2*time.Second)
			ask = append(ask, a.id)
		}
	}
	return m.free - before, ask
}

// history drives the store and the model through the same random steps.
type history struct {
	t     *rapid.T
	tb    *testing.T
	v     *env
	m     *model
	sale  Sale
	order []Order
}

func (h *history) pick() Order { return rapid.SampledFrom(h.order).Draw(h.t, "order") }

func (h *history) step() {
	ctx, s := h.tb.Context(), h.v.store
	attempt := rapid.IntRange(0, 2)
	switch op := rapid.SampledFrom([]string{
		"reserve", "retry", "retry", "accept", "confirm", "release", "expire", "sweep", "pass", "pass",
	}).Draw(h.t, "op"); op {
	case "reserve", "retry":
		o := h.pick()
		if op == "retry" && rapid.IntRange(0, 9).Draw(h.t, "other") == 0 {
			o.Quantity++
		}
		res, err := s.Reserve(ctx, o)
		code, granted := h.m.reserve(o)
		if err != nil || res.Code != code || res.Granted != granted {
			h.t.Fatalf("reserve %+v: code %d granted %v, %v; want %d %v", o, res.Code, res.Granted, err, code, granted)
		}
	case "accept":
		o, n := h.pick(), attempt.Draw(h.t, "attempt")
		_, err := s.Accept(ctx, h.sale.ID, o.ID, n, "")
		h.same(op, err, h.m.accept(o.ID, n))
	case "confirm":
		o, n := h.pick(), attempt.Draw(h.t, "attempt")
		_, err := s.Confirm(ctx, h.sale.ID, o.ID, n, "")
		h.same(op, err, h.m.confirm(o.ID, n))
	case "release":
		o, n := h.pick(), attempt.Draw(h.t, "attempt")
		_, err := s.Release(ctx, h.sale.ID, o.ID, n)
		h.same(op, err, h.m.release(o, n))
	case "expire":
		o := h.pick()
		_, err := s.Expire(ctx, h.sale.ID, o.ID)
		h.same(op, err, h.m.expire(o.ID))
	case "sweep":
		h.sweep()
	case "pass":
		// No sum of these meets a hold of 60.5 s or an attempt of 2.25 s exactly.
		d := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 31 * time.Second}).Draw(h.t, "time")
		h.v.advance(h.tb, h.sale.ID, d)
		h.m.now += d
	}
}

func (h *history) same(op string, got, want error) {
	if got == nil != (want == nil) || !errors.Is(got, want) {
		h.t.Fatalf("%s: %v, want %v", op, got, want)
	}
}

func (h *history) sweep() {
	swept, err := h.v.store.Sweep(h.tb.Context(), h.sale.ID)
	freed, ask := h.m.sweep()
	var ids []string
	for _, r := range swept.Ask {
		ids = append(ids, r.ID)
	}
	if err != nil || swept.Freed != freed || fmt.Sprint(ids) != fmt.Sprint(ask) {
		h.t.Fatalf("sweep: freed %d, ask %v, %v; want %d %v", swept.Freed, ids, err, freed, ask)
	}
}

func (h *history) compare() {
	checkInvariant(h.tb, h.v.store, h.sale.ID)
	l, err := h.v.store.Level(h.tb.Context(), h.sale.ID)
	if err != nil || l.Free != h.m.free || l.Reserved != h.m.reserved || l.Confirmed != h.m.confirmed {
		h.t.Fatalf("%+v, %v; want free %d reserved %d confirmed %d", l, err, h.m.free, h.m.reserved, h.m.confirmed)
	}
	err = h.v.store.Ledger(h.tb.Context(), h.sale.ID, func(r Reservation) error {
		if k := h.m.orders[r.ID]; k == nil || k.state != r.State || k.attempt != r.Attempt {
			return fmt.Errorf("%+v, want %+v", r, k)
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestModel_AnyOrderOfStepsEndsWhereTheModelEnds: 100 histories of each expiry
// on each Redis, about 30 steps each, the books proved after every step.
func TestModel_AnyOrderOfStepsEndsWhereTheModelEnds(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		number := 0
		for _, expiry := range []Expiry{ExpiryFree, ExpiryAsk} {
			t.Run(string(expiry), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					number++
					must(t, v.client.FlushAll(t.Context()).Err())
					v.store = newStore(t, v.client, v.real == nil)
					sale := v.openSale(t, 4, func(s *Sale) {
						s.ID, s.Item = fmt.Sprint("s", number), fmt.Sprint("i", number)
						s.Expiry, s.BuyerLimit, s.Hold = expiry, 3, 60500*time.Millisecond
						s.EndAt = s.EndAt.Add(1000 * time.Hour)
					})
					h := &history{t: rt, tb: t, v: v, m: newModel(sale), sale: sale}
					for i := range 8 {
						o := order(sale, string(rune('a'+i%3)), int64(1+i%2))
						o.AttemptFor = 2250 * time.Millisecond
						h.order = append(h.order, o)
					}
					for range rapid.IntRange(10, 50).Draw(rt, "steps") {
						h.step()
						h.compare()
					}
				})
			})
		}
	})
}
