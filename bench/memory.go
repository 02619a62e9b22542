package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/inventory"
)

// memoryOrders is how many reservations are weighed.
const memoryOrders = 100_000

// weight is used_memory for each reservation, in bytes.
type weight struct{ reserved, settled, swept float64 }

// measureMemory reserves by users with names of 16 bytes and a limit of one unit, confirms all and sweeps.
// Each step has a client of its own, because the buffers of its connections would be weighed with the data.
func measureMemory(ctx context.Context, program string) (*weight, error) {
	say("memory: %d reservations", memoryOrders)
	server, err := startRedis(ctx, program, durabilities()[0], 1)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	ids := make([]string, memoryOrders)
	for i := range ids {
		ids[i] = inventory.NewOrderID(benchSale().ID, weighedUser(i))
	}
	stock, err := openStock(ctx, server.client)
	if err == nil {
		err = warmUp(ctx, stock)
	}
	if err != nil {
		return nil, err
	}
	before, err := usedMemory(ctx, server.client)
	if err != nil {
		return nil, err
	}
	var w weight
	for _, step := range []struct {
		to *float64
		do func(s *inventory.Store) error
	}{
		{&w.reserved, func(s *inventory.Store) error {
			return inTurn(memoryOrders, stockCallers, func(i int) error { return weighedReserve(ctx, s, ids[i], weighedUser(i)) })
		}},
		{&w.settled, func(s *inventory.Store) error {
			return inTurn(memoryOrders, stockCallers, func(i int) error {
				_, err := s.Confirm(ctx, benchSale().ID, ids[i], 1, "shop-order-1234")
				return err
			})
		}},
		{&w.swept, func(s *inventory.Store) error { return sweepAll(ctx, s, server.client) }},
	} {
		used, err := weigh(ctx, server.client, step.do)
		if err != nil {
			return nil, err
		}
		*step.to = float64(used-before) / memoryOrders
	}
	return &w, nil
}

// warmUp loads the scripts. Its order is settled, for a hold at the head of the list keeps the others there.
func warmUp(ctx context.Context, s *inventory.Store) error {
	sale := benchSale()
	id := inventory.NewOrderID(sale.ID, "first")
	if err := weighedReserve(ctx, s, id, "first"); err != nil {
		return err
	}
	_, err := s.Confirm(ctx, sale.ID, id, 1, "shop-order-0001")
	return err
}

// weigh does one step with a client of its own and reads used_memory when its connections are gone.
func weigh(ctx context.Context, server *redis.Client, do func(*inventory.Store) error) (int64, error) {
	opt := *server.Options()
	opt.PoolSize = stockCallers
	client := redis.NewClient(&opt)
	s, err := inventory.New(inventory.Config{Redis: client, Replica: "bench", Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = s.Refresh(ctx)
	}
	if err == nil {
		err = do(s)
	}
	if err = errors.Join(err, client.Close()); err != nil {
		return 0, err
	}
	return usedMemory(ctx, server)
}

// sweepAll sweeps until nothing stands in line any more: settled holds and attempts leave their lists, at
// most 256 of each a sweep, attempts when their time is over.
func sweepAll(ctx context.Context, s *inventory.Store, client *redis.Client) error {
	until := time.Now().Add(attemptFor + 10*time.Second)
	for {
		if _, err := s.Sweep(ctx, benchSale().ID); err != nil {
			return err
		}
		waiting, err := listed(ctx, client)
		switch {
		case err != nil:
			return err
		case waiting <= 8: // the order of the start, and what keeps lists from being empty
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d entries stay in line", waiting)
		}
	}
}

// listed is how many entries all lists of this Redis have.
func listed(ctx context.Context, client *redis.Client) (n int64, err error) {
	lists, _, err := client.ScanType(ctx, 0, "*", 1000, "list").Result()
	if err != nil {
		return 0, err
	}
	for _, key := range lists {
		length, err := client.LLen(ctx, key).Result()
		if err != nil {
			return 0, err
		}
		n += length
	}
	return n, nil
}

func weighedUser(i int) string { return fmt.Sprintf("user-%011d", i) } // 16 bytes

func weighedReserve(ctx context.Context, stock *inventory.Store, id, user string) error {
	sale := benchSale()
	r, err := stock.Reserve(ctx, inventory.Order{ID: id, Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, AttemptFor: attemptFor})
	if err == nil && r.Code != inventory.Taken {
		return fmt.Errorf("answer %d instead of a unit", r.Code)
	}
	return err
}

// inTurn does n things with so many callers; the first fault ends it.
func inTurn(n, callers int, do func(i int) error) error {
	var next atomic.Int64
	faults := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if faults[c] = do(i); faults[c] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

// usedMemory is used_memory when only this client is connected: one connection for commands, one for
// pipelines.
func usedMemory(ctx context.Context, client *redis.Client) (int64, error) {
	until := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := client.Info(ctx).Result()
		if err != nil {
			return 0, err
		}
		clients, err := infoNumber(info, "connected_clients")
		switch {
		case err != nil:
			return 0, err
		case clients <= 2:
			return infoNumber(info, "used_memory")
		case time.Now().After(until):
			return 0, fmt.Errorf("%d connections stay open", clients)
		}
		<-tick.C
	}
}

// statCalls is how often a command was called, by INFO commandstats; 0 if never.
func statCalls(info, name string) (int64, error) {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			return strconv.ParseInt(calls, 10, 64)
		}
	}
	return 0, nil
}

// infoNumber is a field of INFO.
func infoNumber(info, name string) (int64, error) {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}
