package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
	"weir/inventory"
)

// mastersOrders is how many orders each cluster gets.
const mastersOrders = 30_000

// clusterCalls is what each master of a cluster was asked for these orders.
type clusterCalls struct {
	batch int     // 1 is one script an order
	one   int64   // calls of the only master
	each  []int64 // calls of each of three
	units []int64 // units that each of the three took
}

// shares are the calls of each of the three, of those that the only one had.
func (c clusterCalls) shares() []float64 {
	out := make([]float64, len(c.each))
	for i, n := range c.each {
		out[i] = float64(n) / float64(c.one)
	}
	return out
}

func measureMasters(ctx context.Context) ([]clusterCalls, error) {
	all := []clusterCalls{{batch: 1}, {batch: 0}}
	for _, masters := range []int{1, 3} {
		say("masters: %d", masters)
		var fault error
		err := withTester(ctx, func(t testing.TB) {
			cluster := redistest.Cluster(t, masters, 0)
			client := cluster.Client(t, func(o *redis.ClusterOptions) { o.PoolSize = stockCallers })
			for i := range all {
				var calls, units []int64
				if calls, units, fault = askCluster(ctx, cluster, client, all[i].batch); fault != nil {
					return
				}
				if masters == 1 {
					all[i].one = calls[0]
				} else {
					all[i].each, all[i].units = calls, units
				}
			}
		})
		if err == nil {
			err = fault
		}
		if err != nil {
			return nil, fmt.Errorf("%d masters: %w", masters, err)
		}
	}
	return all, nil
}

// askCluster reserves and counts the scripts that each master ran meanwhile.
func askCluster(ctx context.Context, cluster *redistest.RedisCluster, client *redis.ClusterClient, batch int) (calls, units []int64, err error) {
	s, err := inventory.New(inventory.Config{Redis: client, Replica: "bench", Log: slog.New(slog.DiscardHandler), Batch: batch})
	if err != nil {
		return nil, nil, err
	}
	sale := benchSale()
	sale.ID = fmt.Sprint("bench-", batch)
	sale.Item = sale.ID
	if _, err := s.Preheat(ctx, sale); err != nil {
		return nil, nil, err
	}
	before, err := scriptsRun(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	err = inTurn(mastersOrders, stockCallers, func(i int) error {
		user := weighedUser(i)
		r, err := s.Reserve(ctx, inventory.Order{
			ID: inventory.NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, AttemptFor: attemptFor,
		})
		if err == nil && r.Code != inventory.Taken {
			err = fmt.Errorf("answer %d instead of a unit", r.Code)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	after, err := scriptsRun(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	level, err := s.Level(ctx, sale.ID)
	if err != nil {
		return nil, nil, err
	}
	if level.Reserved != mastersOrders {
		return nil, nil, fmt.Errorf("%d orders, but the stock says %+v", mastersOrders, level)
	}
	for i := range after {
		calls = append(calls, after[i]-before[i])
	}
	for _, b := range level.Buckets {
		units = append(units, b.Reserved)
	}
	return calls, units, nil
}

// scriptsRun is how many EVALSHA each master has run.
func scriptsRun(ctx context.Context, cluster *redistest.RedisCluster) ([]int64, error) {
	var all []int64
	for _, n := range cluster.Nodes() { // without replicas, all are masters
		c := redis.NewClient(n.Options())
		info, err := c.Info(ctx, "commandstats").Result()
		c.Close()
		if err != nil {
			return nil, err
		}
		calls, err := statCalls(info, "evalsha")
		if err != nil {
			return nil, err
		}
		all = append(all, calls)
	}
	return all, nil
}
