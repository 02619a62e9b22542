package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// neighbourEvery is how often the other client asks: rarely enough that it is no load of its own.
const neighbourEvery = 2 * time.Millisecond

// neighbourTurn is what another client's GETDEL took in one turn.
type neighbourTurn struct {
	calls         int
	p50, p99, max time.Duration
}

// neighbourPair is a turn without a storm and one with it.
type neighbourPair struct{ quiet, storm neighbourTurn }

// measureNeighbour has another client spend captcha tickets (GETDEL) while 256 callers reserve.
func measureNeighbour(ctx context.Context, o options, program string) ([]neighbourPair, error) {
	server, err := startRedis(ctx, program, durabilities()[0], stockCallers)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	sh, err := openShop(ctx, server.client, server.pid, false)
	if err != nil {
		return nil, err
	}
	defer sh.stop()
	opt := *server.client.Options()
	opt.PoolSize = 2
	other := redis.NewClient(&opt)
	defer other.Close()
	if _, err := repeat(ctx, server.pid, stockCallers, o.step/4, sh.take[byFlights]); err != nil {
		return nil, err
	}
	var pairs []neighbourPair
	for range o.pairs {
		say("neighbour: GETDEL, without and beside a storm")
		var p neighbourPair
		if p.quiet, err = askBeside(ctx, other, o.step); err != nil {
			return nil, err
		}
		stormed := make(chan error, 1)
		go func() {
			_, err := repeat(ctx, server.pid, stockCallers, o.step+o.step/5, sh.take[byFlights])
			stormed <- err
		}()
		p.storm, err = askBeside(ctx, other, o.step)
		if err = errors.Join(err, <-stormed); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// askBeside spends tickets at a steady pace for d.
func askBeside(ctx context.Context, other *redis.Client, d time.Duration) (neighbourTurn, error) {
	var took []time.Duration
	tick := time.NewTicker(neighbourEvery)
	defer tick.Stop()
	until := time.Now().Add(d)
	for n := 0; time.Now().Before(until); n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return neighbourTurn{}, ctx.Err()
		}
		key := "ticket:" + strconv.Itoa(n)
		if err := other.Set(ctx, key, "x", time.Minute).Err(); err != nil {
			return neighbourTurn{}, err
		}
		began := time.Now()
		if err := other.GetDel(ctx, key).Err(); err != nil {
			return neighbourTurn{}, err
		}
		took = append(took, time.Since(began))
	}
	return neighbourTurn{calls: len(took), p50: quantile(took, 0.5), p99: quantile(took, 0.99), max: quantile(took, 1)}, nil
}
