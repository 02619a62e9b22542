package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// quotaShop is a shop with 1000 units of its item, and what it froze of them.
type quotaShop struct {
	mu    sync.Mutex
	stock int64
	sales map[string]shopFreeze
	asked []string // questions, those in vain too
	// trouble comes before a question: an error, and whether the act is done all
	// the same. A nil one is no trouble.
	trouble func(verb string, ask QuotaAsk) (fault error, applied bool)
}

type shopFreeze struct {
	units, back, step int64
	open              bool
}

const shopStock = 1000

func newQuotaShop() *quotaShop {
	return &quotaShop{stock: shopStock, sales: map[string]shopFreeze{}}
}

func (q *quotaShop) Freeze(_ context.Context, ask QuotaAsk) error {
	return q.act("freeze", ask, ask.Units, func(f shopFreeze) shopFreeze {
		before := int64(0)
		if f.open {
			before = f.units
		}
		q.stock -= ask.Units - before
		return shopFreeze{units: ask.Units, open: true}
	})
}

func (q *quotaShop) Thaw(_ context.Context, ask QuotaAsk) error {
	return q.act("thaw", ask, ask.Unsold, func(f shopFreeze) shopFreeze {
		back := min(ask.Unsold, f.units)
		q.stock += back - f.back
		return shopFreeze{units: f.units, back: back}
	})
}

func (q *quotaShop) act(verb string, ask QuotaAsk, n int64, do func(shopFreeze) shopFreeze) error {
	q.mu.Lock()
	trouble := q.trouble
	q.asked = append(q.asked, fmt.Sprint(verb, " ", n))
	q.mu.Unlock()
	var fault error
	applied := true
	if trouble != nil {
		fault, applied = trouble(verb, ask)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.sales[ask.Sale]
	if ask.Step < f.step {
		return fmt.Errorf("%w: step %d is past", ErrQuotaRefused, ask.Step)
	}
	if fault == nil || applied {
		f = do(f)
		f.step = ask.Step
		q.sales[ask.Sale] = f
	}
	return fault
}

func (q *quotaShop) troubled(by func(verb string, ask QuotaAsk) (error, bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble, q.asked = by, nil
}

func (q *quotaShop) questions() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.asked)
}

// holds compares what is left to be sold elsewhere and what is frozen.
func (q *quotaShop) holds(t testing.TB, sale string, stock, frozen int64) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	got := int64(0)
	if f := q.sales[sale]; f.open {
		got = f.units
	}
	if q.stock != stock || got != frozen {
		t.Fatalf("the shop has %d and froze %d, want %d and %d (%+v, asked %v)", q.stock, got, stock, frozen, q.sales, q.asked)
	}
}

var errShopDown = errors.New("the shop does not answer")

// failing has the first n questions fail, done or not.
func failing(n int, applied bool) func(string, QuotaAsk) (error, bool) {
	return func(string, QuotaAsk) (error, bool) {
		if n--; n >= 0 {
			return errShopDown, applied
		}
		return nil, false
	}
}

func refusing422(string, QuotaAsk) (error, bool) {
	return fmt.Errorf("%w: only 5 left", ErrQuotaRefused), false
}

// withShop gives the store a shop that freezes.
func (v *env) withShop(t testing.TB) *quotaShop {
	t.Helper()
	shop := newQuotaShop()
	v.store = v.quotaReplica(t, shop, nil)
	return shop
}

// quotaReplica is a replica with a shop; its link to Redis may fail.
func (v *env) quotaReplica(t testing.TB, shop Quota, f *fault) *Store {
	t.Helper()
	opt := *v.client.Options()
	c := redis.NewClient(&opt)
	t.Cleanup(func() { c.Close() })
	if f != nil {
		c.AddHook(f)
	}
	s, err := New(Config{Redis: c, Memory: v.real == nil, Replica: "test", Log: slog.New(slog.DiscardHandler), Quota: shop})
	must(t, err)
	return s
}

// quotaIs compares the stage, and gives the state.
func (v *env) quotaIs(t testing.TB, sale string, want QuotaStage) QuotaState {
	t.Helper()
	q, err := v.store.Quota(t.Context(), sale)
	must(t, err)
	if q.Stage != want {
		t.Fatalf("%+v, want %s", q, want)
	}
	return q
}

// quotaAged lets the time pass after which a freeze hangs and a next try is due.
func (v *env) quotaAged(t testing.TB, sale string) {
	t.Helper()
	h, err := v.store.lookQuota(t.Context(), sale)
	must(t, err)
	if h.text == "" {
		return
	}
	h.Since, h.Next = h.Since.Add(-quotaGrace), h.Next.Add(-quotaLast)
	text, err := json.Marshal(h.QuotaState)
	must(t, err)
	must(t, v.client.HSet(t.Context(), quotasKey(), sale, text).Err())
}

// mended has the background do what is to be done, until nothing is.
func (v *env) mended(t *testing.T, sale string) {
	t.Helper()
	for range 4 {
		if v.client.HGet(t.Context(), leaseKey(), "sale").Val() != "" {
			v.leaseOver(t, sale)
		}
		v.quotaAged(t, sale)
		must(t, v.store.Refresh(t.Context()))
		must(t, v.store.mendQuotas(t.Context()))
	}
}
