package main

import (
	"context"
	"fmt"
	"time"
)

// loneRuns is how many pairs of runs a lone caller makes, loneOrders how many orders each run has.
const (
	loneRuns   = 20
	loneOrders = 1500
)

// loneRun is what one caller met in one run.
type loneRun struct{ p50, p99 time.Duration }

// lonePair is the same caller with flights and without, one right after the other.
type lonePair struct{ on, off loneRun }

func measureLone(ctx context.Context, program string) ([]lonePair, error) {
	say("lone: one caller")
	server, err := startRedis(ctx, program, durabilities()[0], 8)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	sh, err := openShop(ctx, server.client, server.pid, false)
	if err != nil {
		return nil, err
	}
	defer sh.stop()
	var pairs []lonePair
	for i := range loneRuns + 1 {
		var p lonePair
		first, second := &p.on, &p.off
		ways := [2]int{byFlights, byScript}
		if i%2 == 1 { // neither side always comes first
			first, second, ways = second, first, [2]int{byScript, byFlights}
		}
		if *first, err = loneCaller(ctx, sh.take[ways[0]]); err == nil {
			*second, err = loneCaller(ctx, sh.take[ways[1]])
		}
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first pair warms up
			pairs = append(pairs, p)
		}
	}
	return pairs, nil
}

// loneCaller orders one after the other.
func loneCaller(ctx context.Context, take func(context.Context, int64) error) (loneRun, error) {
	took := make([]time.Duration, loneOrders)
	base := time.Now().UnixNano()
	for i := range took {
		began := time.Now()
		if err := take(ctx, base+int64(i)); err != nil {
			return loneRun{}, fmt.Errorf("order %d of a lone caller: %w", i, err)
		}
		took[i] = time.Since(began)
	}
	return loneRun{p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
}
