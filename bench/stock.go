package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/inventory"
)

// stockCallers ask at once; the pool has a connection for each.
const stockCallers = 256

// The three ways to take a unit, in the order in which they take turns.
const (
	byFlights = iota
	byScript
	byPlain
	ways
)

func wayNames() [ways]string {
	return [ways]string{"Reserve, shared flights", "Reserve, one script an order", "plain S3 script v2"}
}

// shop is one Redis with the three ways side by side: two Stores of one sale and the plain script.
type shop struct {
	client *redis.Client
	pid    int // of the server; this process for miniredis
	take   [ways]func(ctx context.Context, n int64) error
	shared *inventory.Store
	plain  *plainStock
	stop   func()
}

// openShop preheats the sale and keeps both Stores' views fresh, as a gateway does.
func openShop(ctx context.Context, client *redis.Client, pid int, memory bool) (*shop, error) {
	sh := &shop{client: client, pid: pid}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	sh.stop = func() { cancel(); running.Wait() }
	sale := benchSale()
	for way, batch := range []int{byFlights: 0, byScript: 1} {
		s, err := inventory.New(inventory.Config{
			Redis: client, Memory: memory, Replica: fmt.Sprint("bench-", way), Log: slog.New(slog.DiscardHandler), Batch: batch,
		})
		if err == nil {
			_, err = s.Preheat(ctx, sale) // the second finds it done
		}
		if err != nil {
			sh.stop()
			return nil, err
		}
		running.Go(func() { _ = s.Run(ctx) })
		sh.take[way] = func(ctx context.Context, n int64) error { return reserveOne(ctx, s, n) }
		if way == byFlights {
			sh.shared = s
		}
	}
	var err error
	if sh.plain, err = openPlain(ctx, client); err != nil {
		sh.stop()
		return nil, err
	}
	sh.take[byPlain] = sh.plain.take
	return sh, nil
}

// reserveOne takes one unit for buyer n, who has none yet.
func reserveOne(ctx context.Context, s *inventory.Store, n int64) error {
	sale := benchSale()
	user := "user-" + strconv.FormatInt(n, 10)
	r, err := s.Reserve(ctx, inventory.Order{
		ID: inventory.NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, AttemptFor: attemptFor,
	})
	if err == nil && r.Code != inventory.Taken {
		return fmt.Errorf("answer %d instead of a unit", r.Code)
	}
	return err
}

// stockCell is what was measured on one kind of Redis.
type stockCell struct {
	where  string
	memory bool
	turns  [ways][]tally
	width  float64 // orders of a flight, in the mean
}

func measureStock(ctx context.Context, o options, program string) ([]stockCell, error) {
	var cells []stockCell
	for _, d := range durabilities() {
		say("stock: %s", d.name)
		server, err := startRedis(ctx, program, d, stockCallers)
		if err != nil {
			return nil, err
		}
		c, err := measureWays(ctx, o, server.client, server.pid, d.name, false)
		server.stop()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		cells = append(cells, c)
	}
	say("stock: miniredis")
	c, err := measureMini(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("miniredis: %w", err)
	}
	return append(cells, c), nil
}

// measureMini does it on miniredis in this process, as redis.mode memory runs it.
func measureMini(ctx context.Context, o options) (stockCell, error) {
	m, err := miniredis.Run()
	if err != nil {
		return stockCell{}, err
	}
	defer m.Close()
	client := redis.NewClient(benchOptions("tcp", m.Addr(), stockCallers))
	defer client.Close()
	return measureWays(ctx, o, client, os.Getpid(), "miniredis", true)
}

// measureWays lets the three ways take turns, and proves at the end that each unit counted was taken.
func measureWays(ctx context.Context, o options, client *redis.Client, pid int, where string, memory bool) (stockCell, error) {
	c := stockCell{where: where, memory: memory}
	sh, err := openShop(ctx, client, pid, memory)
	if err != nil {
		return c, err
	}
	defer sh.stop()
	var counted [ways]int64
	turn := func(way int, d time.Duration) (tally, error) {
		t, err := repeat(ctx, pid, stockCallers, d, sh.take[way])
		counted[way] += int64(t.requests)
		if err != nil {
			err = fmt.Errorf("%s: %w", wayNames()[way], err)
		}
		return t, err
	}
	for way := range ways {
		if _, err := turn(way, o.step/4); err != nil { // scripts are loaded, connections dialled
			return c, err
		}
	}
	before := sh.shared.Stats()
	for range o.pairs {
		for way := range ways {
			t, err := turn(way, o.step)
			if err != nil {
				return c, err
			}
			c.turns[way] = append(c.turns[way], t)
		}
	}
	after := sh.shared.Stats()
	c.width = float64(after.Orders-before.Orders) / float64(max(after.Flights-before.Flights, 1))
	return c, sh.prove(ctx, counted)
}

// prove holds what was counted against the stock.
func (sh *shop) prove(ctx context.Context, counted [ways]int64) error {
	level, err := sh.shared.Level(ctx, benchSale().ID)
	if err != nil {
		return err
	}
	if n := counted[byFlights] + counted[byScript]; level.Reserved != n || level.Free+level.Reserved != level.Total {
		return fmt.Errorf("%d reserves were counted, but the stock says %+v", n, level)
	}
	byStock, byHistory, err := sh.plain.taken(ctx)
	if err == nil && (byStock != counted[byPlain] || byHistory != counted[byPlain]) {
		err = fmt.Errorf("%d plain deductions were counted, the stock says %d and the history %d", counted[byPlain], byStock, byHistory)
	}
	return err
}
