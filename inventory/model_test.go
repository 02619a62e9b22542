package inventory

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
	h.v.still(h.tb, h.sale.ID, h.m.now)
	attempt := rapid.IntRange(0, 2)
	switch op := rapid.SampledFrom([]string{
		"reserve", "retry", "retry", "accept", "confirm", "release", "expire", "sweep", "pass", "pass",
		"extend", "stuck", "restore", "desire",
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
	case "extend":
		o := h.pick()
		_, err := s.Extend(ctx, h.sale.ID, o.ID, 20*time.Second)
		h.same(op, err, h.m.extend(o.ID, 20*time.Second))
	case "stuck":
		o := h.pick()
		h.same(op, s.MarkStuck(ctx, h.sale.ID, o.ID), h.m.stuck(o.ID))
	case "restore":
		h.restore(h.pick())
	case "desire":
		d := rapid.SampledFrom([]Desired{DesiredOn, DesiredOn, DesiredOn, DesiredPaused, DesiredCancelled}).Draw(h.t, "desired")
		h.same(op, s.setDesired(ctx, h.sale.ID, d, ""), h.m.desire(d))
	case "sweep":
		h.sweep()
	case "pass":
		// No sum of these meets a hold of 60.5 s or an attempt of 2.25 s exactly.
		d := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 31 * time.Second}).Draw(h.t, "time")
		h.v.advance(h.tb, h.sale.ID, d)
		h.m.now += d
	}
}

const restoredFor = 30500 * time.Millisecond

func (h *history) restore(o Order) {
	state := rapid.SampledFrom([]State{Reserved, Confirmed}).Draw(h.t, "state")
	r := restored(h.tb, h.v, h.v.store, o, state)
	_, err := h.v.store.Restore(h.tb.Context(), r)
	h.same("restore", err, h.m.restore(o, state, restoredFor))
}

// restored is what somebody remembers of an order. The replica must know the
// bucket's epoch, as it does by its last reading.
func restored(t testing.TB, v *env, s *Store, o Order, state State) Reservation {
	e, err := s.entry(t.Context(), o.Sale)
	must(t, err)
	heads, err := s.readHeads(t.Context(), e.live)
	must(t, err)
	for i, c := range e.cells {
		c.level.Store(heads[i])
	}
	return Reservation{ID: o.ID, Sale: o.Sale, User: o.User, Quantity: o.Quantity, State: state, Attempt: 1,
		ExpiresAt: v.redisNow(t).Add(restoredFor)}
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
	slices.Sort(ids) // in no order
	slices.Sort(ask)
	if err != nil || swept.Freed != freed || !slices.Equal(ids, ask) {
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

// histories sets how many rapid makes: n on miniredis, six times as many on a
// real server, or with WEIR_LONG=1 in the environment RAPID_CHECKS, 2000 if that
// is empty.
func (v *env) histories(t *testing.T, n int) {
	t.Helper()
	if v.real != nil {
		n *= 6
	}
	if os.Getenv("WEIR_LONG") == "1" {
		n = 2000
		if text := os.Getenv("RAPID_CHECKS"); text != "" {
			var err error
			n, err = strconv.Atoi(text)
			must(t, err)
		}
	}
	f := flag.Lookup("rapid.checks")
	old := f.Value.String()
	must(t, f.Value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { must(t, f.Value.Set(old)) })
}

// TestModel_AnyOrderOfStepsEndsWhereTheModelEnds: 25 histories of each expiry
// on miniredis and 150 on a real server, about 30 steps each, the books proved
// after every step.
func TestModel_AnyOrderOfStepsEndsWhereTheModelEnds(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		v.histories(t, 25)
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
