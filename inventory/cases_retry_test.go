package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// TestStock_H03_RetriesAndReleasesCrossWhileTheHomeIsDry: whatever order they
// come in, and wherever the units come from, the end is the same.
func TestStock_H03_RetriesAndReleasesCrossWhileTheHomeIsDry(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.MaxQuantity, s.BuyerLimit = 5, 50, 1 })
		v.stockOnlyIn(t, sale, 1)
		for n := range 25 {
			o := order(sale, userAt(sale, 0, 5, n), 1)
			parallel(t, 4, func(i int) error {
				if i%2 == 0 {
					return second(v.store.Release(ctx, sale.ID, o.ID, 0))
				}
				return second(v.store.Reserve(ctx, o))
			})
			if r, err := v.store.Find(ctx, o.ID); err != nil || (r.State != Released && r.State != Cancelled) {
				t.Fatalf("%+v %v", r, err)
			}
			v.level(t, sale.ID, 50, 0, 0)
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestStock_T04_ALostBucketIsNoSoldOutForADryHome(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.MaxQuantity, s.BuyerLimit = 5, 50, 0 })
		v.stockOnlyIn(t, sale, 1)
		bulk := order(sale, userAt(sale, 1, 5, 7), 50)
		v.reserve(t, bulk, TakenLast)
		must(t, second(v.store.Confirm(ctx, sale.ID, bulk.ID, 1, "S")))
		must(t, v.client.Unlink(ctx, v.buckets(sale.ID)[4].keys()...).Err())
		for i := range 3 {
			res, err := v.store.Reserve(ctx, order(sale, userAt(sale, 0, 5, i), 1))
			if view, _ := v.store.View(sale.ID); !errors.Is(err, ErrUnavailable) || view.SoldOut {
				t.Fatalf("%+v, %v, sold out %v", res, err, view.SoldOut)
			}
			_ = v.store.Refresh(ctx) // says what is missing
		}
	})
}

func TestStock_T20_AnOrderOfTenFromTenBucketsWithOneDueHoldEach(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.MaxQuantity, s.BuyerLimit = 10, 10, 0 })
		for i := range 10 {
			o := order(sale, userAt(sale, i, 10, 0), 9)
			v.reserve(t, o, Taken)
			must(t, second(v.store.Confirm(t.Context(), sale.ID, o.ID, 1, "S")))
			v.reserve(t, order(sale, userAt(sale, i, 10, 1), 1), TakenLast)
		}
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, userAt(sale, 3, 10, 2), 10), TakenLast)
		v.level(t, sale.ID, 0, 10, 90)
	})
}

// TestStock_T24_AnAskSalesHoldEndsOnceToo: payment, sweep, the shop's no and a
// next buyer at once, around the deadline.
func TestStock_T24_AnAskSalesHoldEndsOnceToo(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		for i, late := range []time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond} {
			for _, accepted := range []bool{false, true} {
				id := fmt.Sprintf("s%d-%v", i, accepted)
				sale := v.openSale(t, 1, func(s *Sale) { s.ID, s.Item, s.Expiry = id, id, ExpiryAsk })
				paid, other := v.won(t, sale, "ann"), order(sale, "bob", 1)
				if accepted {
					must(t, second(v.store.Accept(ctx, sale.ID, paid.ID, 1, "S-1")))
				}
				v.advance(t, sale.ID, sale.Hold+late)
				parallel(t, 4, func(n int) (err error) {
					switch n {
					case 0:
						_, err = v.store.Sweep(ctx, sale.ID)
					case 1:
						_, err = v.store.Confirm(ctx, sale.ID, paid.ID, 0, "S-1")
					case 2:
						_, err = v.store.Reserve(ctx, other)
					default:
						if _, err = v.store.Expire(ctx, sale.ID, paid.ID); errors.Is(err, ErrNotAllowed) {
							err = nil
						}
					}
					return err
				})
				r, err := v.store.Find(ctx, paid.ID)
				must(t, err)
				b, err := v.store.Find(ctx, other.ID)
				resold := err == nil && b.State == Reserved
				if (r.State == Confirmed) == resold || (r.State != Confirmed && r.State != RefundDue) {
					t.Errorf("%v late, accepted %v: %s, resold %v", late, accepted, r.State, resold)
				}
				checkInvariant(t, v.store, sale.ID)
			}
		}
	})
}

// TestStock_T15_EveryScriptOfAnOrdersLifeRunsOnceWhenItsReplyIsLost: those that
// the case's first test does not send.
func TestStock_T15_EveryScriptOfAnOrdersLifeRunsOnceWhenItsReplyIsLost(t *testing.T) { // H-2
	for _, buckets := range []int{1, 5} {
		eachRedis(t, func(t *testing.T, v *env) {
			ctx := t.Context()
			sale := v.openSale(t, 50, func(s *Sale) { s.Buckets, s.Expiry = buckets, ExpiryAsk })
			s, p := v.throughProxy(t, func(_ *Config, o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
			o, back := v.won(t, sale, "ann"), order(sale, "bob", 1)
			lost := v.forgotten(t, sale, "cid")
			must(t, s.Refresh(ctx))
			steps := []struct {
				name string
				act  func() error
			}{
				{"extend", func() error { return second(s.Extend(ctx, sale.ID, o.ID, time.Second)) }},
				{"stuck", func() error { return s.MarkStuck(ctx, sale.ID, o.ID) }},
				{"restore", func() error { return second(s.Restore(ctx, lost)) }},
				{"expire", func() error { return second(s.Expire(ctx, sale.ID, o.ID)) }},
				{"late payment", func() error { return second(s.Confirm(ctx, sale.ID, o.ID, 0, "S")) }},
				{"return", func() error { return second(s.Release(ctx, sale.ID, o.ID, 0)) }},
				{"tombstone", func() error { return second(s.Release(ctx, sale.ID, back.ID, 0)) }},
			}
			v.everyScriptCached(t, sale)
			for _, step := range steps {
				if step.name == "expire" {
					v.advance(t, sale.ID, sale.Hold+2*time.Second)
				}
				v.lostOnce(t, sale, s, p, step.name, step.act)
			}
			v.settled(t, sale, Returned, nil, mustFind(t, v.store, o.ID), nil)
			v.settled(t, sale, Cancelled, nil, mustFind(t, v.store, back.ID), nil)
			v.level(t, sale.ID, 49, 1, 0)
		})
	}
}

func mustFind(t *testing.T, s *Store, id string) Reservation {
	t.Helper()
	r, err := s.Find(t.Context(), id)
	must(t, err)
	return r
}

// forgotten is a reservation that Redis does not have.
func (v *env) forgotten(t *testing.T, sale Sale, user string) Reservation {
	now := v.redisNow(t)
	return Reservation{
		ID: NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, State: Reserved,
		ReservedAt: now, ExpiresAt: now.Add(time.Hour), Attempt: 1,
	}
}

// everyScriptCached runs each once, so that none is sent by EVAL later.
func (v *env) everyScriptCached(t *testing.T, sale Sale) {
	t.Helper()
	ctx := t.Context()
	o := v.won(t, sale, "warm")
	must(t, second(v.store.Extend(ctx, sale.ID, o.ID, time.Second)))
	must(t, v.store.MarkStuck(ctx, sale.ID, o.ID))
	_, _ = v.store.Expire(ctx, sale.ID, o.ID) // not due
	must(t, second(v.store.Release(ctx, sale.ID, o.ID, 0)))
	_, _ = v.store.Confirm(ctx, sale.ID, o.ID, 0, "") // not allowed
	back := v.forgotten(t, sale, "warm")
	must(t, second(v.store.Restore(ctx, back)))
	must(t, second(v.store.Release(ctx, sale.ID, back.ID, 0)))
}

// lostOnce: the act's reply is cut off, then kept back; each time the script was
// sent once and the caller does not know; asking again is one execution's effect.
func (v *env) lostOnce(t *testing.T, sale Sale, s *Store, p *redistest.Proxy, name string, act func() error) {
	t.Helper()
	before := seqOf(t, v.store, sale.ID)
	for how, harm := range map[string]func() *redistest.Fault{
		"dropped": func() *redistest.Fault { return p.DropReply("EVALSHA", 1) },
		"hanging": func() *redistest.Fault { return p.HangReply("EVALSHA", 1) },
	} {
		sent := p.Count("EVALSHA")
		fault := harm()
		err := act()
		if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable) || fault.Hits() != 1 || p.Count("EVALSHA")-sent != 1 {
			t.Errorf("%s %s: %v, %d hits, %d sent", name, how, err, fault.Hits(), p.Count("EVALSHA")-sent)
		}
		p.ClearFaults()
	}
	must(t, act())
	if changes := seqOf(t, v.store, sale.ID) - before; changes != 1 {
		t.Errorf("%s changed %d times", name, changes)
	}
	checkInvariant(t, v.store, sale.ID)
}

func seqOf(t *testing.T, s *Store, sale string) int64 {
	t.Helper()
	l, err := s.Level(t.Context(), sale)
	must(t, err)
	return l.Seq
}
