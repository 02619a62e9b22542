package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/inventory"
)

// benchSale has more units than any run takes, and the default limit of one unit for each buyer.
func benchSale() inventory.Sale {
	return inventory.Sale{
		ID: "bench", Version: 1, Item: "1001", EndAt: time.Now().Add(24 * time.Hour), Total: 1 << 40,
		BuyerLimit: 1, MaxQuantity: 1, Hold: time.Hour, Expiry: inventory.ExpiryAsk, Settle: inventory.SettleAccept,
	}
}

// attemptFor is what weir asks for with its default upstream.timeout.
const attemptFor = 7 * time.Second

// The operations, in the order in which they take turns.
const (
	opPing = iota
	opDecr
	opReserve
	ops
)

func opNames() [ops]string {
	return [ops]string{"PING", "EVALSHA of one DECR", "inventory.Store.Reserve"}
}

// cell is what was measured at one durability and number of callers.
type cell struct {
	durability string
	callers    int
	turns      [ops][]tally // of the same length
}

func measureReserves(ctx context.Context, o options, program string) ([]cell, error) {
	var cells []cell
	for _, d := range durabilities() {
		for _, callers := range []int{1, 16, 64} {
			say("reserves: %s, %d callers", d.name, callers)
			c, err := measureCell(ctx, o, program, d, callers)
			if err != nil {
				return nil, fmt.Errorf("%s, %d callers: %w", d.name, callers, err)
			}
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// measureCell lets the three operations take turns on a fresh server, and proves at the end that each
// reserve that was counted took a unit.
func measureCell(ctx context.Context, o options, program string, d durability, callers int) (cell, error) {
	c := cell{durability: d.name, callers: callers}
	server, err := startRedis(ctx, program, d, callers)
	if err != nil {
		return c, err
	}
	defer server.stop()
	stock, err := openStock(ctx, server.client)
	if err != nil {
		return c, err
	}
	run := operations(server.client, stock)
	warm := 0
	for op := range ops {
		t, err := repeat(ctx, server.pid, callers, o.step/5, run[op])
		if err != nil {
			return c, err
		}
		if op == opReserve {
			warm = t.requests
		}
	}
	for range o.pairs {
		for op := range ops {
			t, err := repeat(ctx, server.pid, callers, o.step/2, run[op])
			if err != nil {
				return c, fmt.Errorf("%s: %w", opNames()[op], err)
			}
			c.turns[op] = append(c.turns[op], t)
		}
	}
	return c, c.proved(ctx, stock, warm)
}

func (c cell) proved(ctx context.Context, stock *inventory.Store, warm int) error {
	level, err := stock.Level(ctx, benchSale().ID)
	if err != nil {
		return err
	}
	counted := warm
	for _, t := range c.turns[opReserve] {
		counted += t.requests
	}
	if level.Reserved != int64(counted) || level.Free+level.Reserved != level.Total {
		return fmt.Errorf("%d reserves were counted, but the stock says %+v", counted, level)
	}
	return nil
}

func openStock(ctx context.Context, client *redis.Client) (*inventory.Store, error) {
	stock, err := inventory.New(inventory.Config{Redis: client, Replica: "bench", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := stock.Preheat(ctx, benchSale()); err != nil {
		return nil, err
	}
	return stock, stock.Refresh(ctx)
}

// operations are the calls that are compared; n is another number for each call.
func operations(client *redis.Client, stock *inventory.Store) [ops]func(ctx context.Context, n int64) error {
	decr := redis.NewScript(`return redis.call('DECR', KEYS[1])`)
	keys := []string{"counter"}
	return [ops]func(context.Context, int64) error{
		opPing:    func(ctx context.Context, _ int64) error { return client.Ping(ctx).Err() },
		opDecr:    func(ctx context.Context, _ int64) error { return decr.Run(ctx, client, keys).Err() },
		opReserve: func(ctx context.Context, n int64) error { return reserveOne(ctx, stock, n) },
	}
}

// repeat lets so many callers do one operation for d; the first fault ends the turn.
func repeat(ctx context.Context, pid, callers int, d time.Duration, do func(context.Context, int64) error) (tally, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := cpuTime(pid)
	if err != nil {
		return tally{}, err
	}
	started := time.Now()
	base := started.UnixNano() // no number comes again in a later turn
	var done atomic.Int64
	faults := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for time.Since(started) < d && ctx.Err() == nil {
				if faults[i] = do(ctx, base+done.Add(1)); faults[i] != nil {
					cancel()
					return
				}
			}
		})
	}
	all.Wait()
	t := tally{requests: int(done.Load()), took: time.Since(started)}
	after, err := cpuTime(pid)
	t.cpu = after - before
	return t, errors.Join(append(faults, err, ctx.Err())...)
}
