package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicaNamed is a replica of its own name: leases know it from others.
func replicaNamed(t testing.TB, c redis.UniversalClient, memory bool, name string) *Store {
	t.Helper()
	s, err := New(Config{Redis: c, Memory: memory, Replica: name, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return s
}

// eachStorm is eachRedis for many buyers at once; miniredis under the race
// detector takes fewer of them.
func eachStorm(t *testing.T, test func(t *testing.T, v *env, buyers int)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryEnv(t), 120) })
	t.Run("real", func(t *testing.T) { test(t, realEnv(t), 200) })
}

// another is one more replica on the same Redis, with a client and hooks of its own.
func (v *env) another(t testing.TB, name string, hooks ...redis.Hook) *Store {
	t.Helper()
	opt := *v.client.Options()
	opt.PoolSize = 64
	c := redis.NewClient(&opt)
	t.Cleanup(func() { c.Close() })
	for _, h := range hooks {
		c.AddHook(h)
	}
	s := replicaNamed(t, c, v.real == nil, name)
	must(t, s.Refresh(t.Context()))
	return s
}

// calls counts scripts as they are sent, those in pipelines too.
type calls struct{ scripts atomic.Int64 }

func (c *calls) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.scripts.Add(1)
		}
	}
}

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// spreadSale opens a sale of each×n units over n buckets, each of them then
// holding as much as parts says; the rest of the plan is brought to bucket 0
// and sold there in one order.
func (v *env) spreadSale(t testing.TB, parts []int64, change func(*Sale)) Sale {
	t.Helper()
	n, most := len(parts), int64(10)
	for _, p := range parts {
		most = max(most, p)
	}
	sum := int64(0)
	for _, p := range parts {
		sum += p
	}
	sale := v.openSale(t, most*int64(n), func(s *Sale) {
		s.Buckets, s.MaxQuantity = n, most*int64(n)
		if change != nil {
			change(s)
		}
	})
	for i := 1; i < n; i++ {
		v.move(t, sale.ID, i, 0, most-parts[i])
	}
	if rest := most*int64(n) - sum; rest > 0 {
		o := order(sale, homeUser(sale.ID, n, 0, 99), rest)
		v.reserve(t, o, takenCode(parts[0]))
		_, err := v.store.Confirm(t.Context(), sale.ID, o.ID, 1, "S-0")
		must(t, err)
	}
	v.holds(t, sale.ID, parts...)
	return sale
}

func takenCode(left int64) Code {
	if left == 0 {
		return TakenLast
	}
	return Taken
}

// holds compares the free units of each bucket.
func (v *env) holds(t testing.TB, sale string, free ...int64) {
	t.Helper()
	l := checkBooks(t, v.store, sale)
	got := make([]int64, len(l.Buckets))
	for i, b := range l.Buckets {
		got[i] = b.Free
	}
	if fmt.Sprint(got) != fmt.Sprint(free) {
		t.Fatalf("free units by bucket %v, want %v", got, free)
	}
}

// homeUser is the k-th user whose home is bucket i of n.
func homeUser(sale string, n, i, k int) string {
	for j := 0; ; j++ {
		user := fmt.Sprint("u", j)
		if home(NewOrderID(sale, user), n) != i {
			continue
		}
		if k--; k < 0 {
			return user
		}
	}
}

// fresh forgets everything.
func (v *env) fresh(t testing.TB) {
	t.Helper()
	must(t, v.client.FlushAll(context.Background()).Err())
	v.store = newStore(t, v.client, v.real == nil)
}

// lendBy and acceptBy are the two steps of a loan, by hand.
func (v *env) lendBy(t testing.TB, s *Store, sale string, l loan, to int) (int64, error) {
	t.Helper()
	e, err := s.entry(t.Context(), sale)
	must(t, err)
	return s.lend(t.Context(), e, l, to, false)
}

func (v *env) acceptBy(t testing.TB, s *Store, sale string, l loan, to int) error {
	t.Helper()
	e, err := s.entry(t.Context(), sale)
	must(t, err)
	r, err := s.runOn(t.Context(), e, e.cells[to], &s.scripts.reserve, []any{l.id, l.units, l.from})
	if err == nil && r.code != 0 {
		err = fmt.Errorf("code %d", r.code)
	}
	return err
}

// move is a whole loan.
func (v *env) move(t testing.TB, sale string, from, to int, units int64) {
	t.Helper()
	if units == 0 {
		return
	}
	l := loan{id: newLoanID(), units: units, from: from}
	n, err := v.lendBy(t, v.store, sale, l, to)
	must(t, err)
	if n != units {
		t.Fatalf("bucket %d lent %d of %d units", from, n, units)
	}
	must(t, v.acceptBy(t, v.store, sale, l, to))
}

// checkBooks is checkInvariant, and says itself, from the answer alone, what
// must hold of each bucket, of the sale and of the loan books.
func checkBooks(t testing.TB, s *Store, sale string) Level {
	t.Helper()
	checkInvariant(t, s, sale)
	l, err := s.Level(context.Background(), sale)
	must(t, err)
	var out, in, planned int64
	for _, b := range l.Buckets {
		if b.Planned+b.LentIn != b.LentOut+b.Free+b.Reserved+b.Confirmed || min(b.Free, b.Reserved, b.Confirmed, b.LentIn, b.LentOut) < 0 {
			t.Fatalf("the books of bucket %d do not close: %+v", b.Index, b)
		}
		planned, out, in = planned+b.Planned, out+b.LentOut, in+b.LentIn
	}
	if out-in != l.OnLoan || planned != l.Total || l.Total != l.Free+l.Reserved+l.Confirmed+l.OnLoan {
		t.Fatalf("the sale's books do not close: %+v", l)
	}
	return l
}

func TestBuckets_AWholeSaleOverTenSellsEachUnitOnce(t *testing.T) { // T-05
	eachStorm(t, func(t *testing.T, v *env, buyers int) {
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.BuyerLimit = 10, 1 })
		stores := []*Store{v.store, v.another(t, "b"), v.another(t, "c")}
		var won, lost atomic.Int64
		parallel(t, buyers, func(i int) error {
			res, err := stores[i%3].Reserve(t.Context(), order(sale, fmt.Sprint("u", i), 1))
			switch {
			case err != nil:
				return err
			case res.Code == Taken || res.Code == TakenLast:
				won.Add(1)
			case res.Code == NoneFreeNow:
				lost.Add(1)
			default:
				return fmt.Errorf("%+v", res)
			}
			return nil
		})
		if won.Load() != 100 || int(lost.Load()) != buyers-100 {
			t.Fatalf("%d won, %d were told to wait", won.Load(), lost.Load())
		}
		checkBooks(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 100, 0)
	})
}

func TestBuckets_AUsersOrdersAndHisLimitLieInHisHome(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, func(s *Sale) { s.Buckets, s.BuyerLimit = 10, 2 })
		other := v.another(t, "b")
		for i := range 10 {
			user := homeUser(sale.ID, 10, i, 0)
			for _, s := range []*Store{v.store, other} {
				res, err := s.Reserve(t.Context(), order(sale, user, 1))
				must(t, err)
				if res.Reservation.Bucket != i {
					t.Fatalf("%s of bucket %d: %+v", user, i, res)
				}
				r, err := other.Find(t.Context(), res.Reservation.ID)
				must(t, err)
				if r.Bucket != i || r.User != user {
					t.Fatalf("%+v", r)
				}
			}
			v.reserve(t, order(sale, user, 1), BuyerLimit)
		}
		v.holds(t, sale.ID, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8)
	})
}

func TestBuckets_TheNumberIsFrozenWithThePreheat(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for total, want := range map[int64]int{5: 1, 19: 1, 20: 2, 99: 9, 100: 10, 5005: 10} {
			sale := v.openSale(t, total, func(s *Sale) {
				s.ID, s.Item, s.Buckets, s.BucketCap = fmt.Sprint("s", total), fmt.Sprint("i", total), 10, 1000
			})
			l := checkBooks(t, v.store, sale.ID)
			parts, err := Split(total, want, total)
			must(t, err)
			for i, b := range l.Buckets {
				if len(l.Buckets) != want || b.Planned != parts[i] || b.Free != parts[i] {
					t.Fatalf("%d units: %+v, want %v", total, l.Buckets, parts)
				}
			}
			other := sale
			other.Buckets = 3
			if _, err := v.store.Preheat(t.Context(), other); !errors.Is(err, ErrVersionReused) {
				t.Fatalf("a running sale got another number of buckets: %v", err)
			}
		}
	})
}

func TestBuckets_ADueHoldBehindExtendedOnesIsSeenFromOtherBuckets(t *testing.T) { // T-20
	eachRedis(t, func(t *testing.T, v *env) {
		for _, paying := range []int{1, 20} { // more than level.lua looks at
			v.fresh(t)
			each := int64(paying + 9)
			sale := v.openSale(t, 2*each, func(s *Sale) { s.Buckets, s.MaxQuantity = 2, each })
			for i := range paying {
				o := order(sale, homeUser(sale.ID, 2, 0, i), 1)
				v.reserve(t, o, Taken)
				_, err := v.store.Extend(t.Context(), sale.ID, o.ID, time.Minute)
				must(t, err)
			}
			v.reserve(t, order(sale, homeUser(sale.ID, 2, 0, paying), 9), TakenLast)
			sold := order(sale, homeUser(sale.ID, 2, 1, 1), each)
			v.reserve(t, sold, TakenLast)
			_, err := v.store.Confirm(t.Context(), sale.ID, sold.ID, 1, "S-1")
			must(t, err)
			v.advance(t, sale.ID, sale.Hold+time.Second) // the nine are over, no sweeper runs
			v.reserve(t, order(sale, homeUser(sale.ID, 2, 1, 0), 9), TakenLast)
			checkBooks(t, v.store, sale.ID)
		}
	})
}

func TestBuckets_AllDueHoldsOfAnotherBucketServeOneOrder(t *testing.T) { // T-20, trap 13
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{5, 0, 0}, nil)
		for i := range 5 {
			v.reserve(t, order(sale, homeUser(sale.ID, 3, 0, i), 1), takenCode(int64(4-i)))
		}
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, homeUser(sale.ID, 3, 1, 0), 5), TakenLast)
		checkBooks(t, v.store, sale.ID)
	})
}
