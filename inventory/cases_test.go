package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The tests named TestStock_T… are the public bug reports of peers, turned into
// inputs. This file is what they share.

// eachShape runs a case on both kinds of Redis, with one bucket and with five.
func eachShape(t *testing.T, test func(t *testing.T, v *env, shape func(*Sale))) {
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n, " buckets"), func(t *testing.T) {
			eachRedis(t, func(t *testing.T, v *env) { test(t, v, func(s *Sale) { s.Buckets = n }) })
		})
	}
}

// replicaOf is another replica on the same Redis, with a client of its own.
func (v *env) replicaOf(t testing.TB, name string, change func(*Config, *redis.Options)) *Store {
	t.Helper()
	opt := *v.client.Options()
	c := Config{Memory: v.real == nil, Replica: name, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c, &opt)
	}
	client := redis.NewClient(&opt)
	t.Cleanup(func() { client.Close() })
	c.Redis = client
	s, err := New(c)
	must(t, err)
	return s
}

// running runs a replica until the test ends.
func running(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// userAt is a user whose home is bucket `at` of n; salt makes another one.
func userAt(sale Sale, at, n, salt int) string {
	for i := 0; ; i++ {
		u := fmt.Sprintf("u%d-%d", salt, i)
		if home(NewOrderID(sale.ID, u), n) == at {
			return u
		}
	}
}

// tally counts answers by code.
type tally struct {
	mu     sync.Mutex
	byCode map[Code]int
	grants int
}

func (c *tally) add(r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byCode == nil {
		c.byCode = map[Code]int{}
	}
	c.byCode[r.Code]++
	if r.Granted {
		c.grants++
	}
}

func (c *tally) of(codes ...Code) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, code := range codes {
		n += c.byCode[code]
	}
	return n
}

func (c *tally) wins() int { return c.of(Taken, TakenLast) }

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.byCode, " grants ", c.grants)
}

// ask reserves n orders at once, of users and stores as told, and counts.
func ask(t *testing.T, n int, with func(i int) (*Store, Order)) *tally {
	t.Helper()
	c := &tally{}
	parallel(t, n, func(i int) error {
		s, o := with(i)
		res, err := s.Reserve(t.Context(), o)
		if err == nil {
			c.add(res)
		}
		return err
	})
	return c
}

// ledgerSum is the units of one state, by a walk over the ledger.
func ledgerSum(t testing.TB, s *Store, sale string, state State) (n int64) {
	t.Helper()
	once := map[string]bool{}
	must(t, s.Ledger(context.Background(), sale, func(r Reservation) error {
		if r.State == state && !once[r.ID] {
			n += r.Quantity
		}
		once[r.ID] = true
		return nil
	}))
	return n
}

// counting is a hook that counts commands as they are sent, those in
// pipelines too.
type counting struct{ commands atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// storm is a short refresh for tests that wait for many of them.
const storm = 20 * time.Millisecond
