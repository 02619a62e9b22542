package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"weir/inventory"
)

// measureSoldOut is the sold-out check as the gateway makes it, on one core while Store.Run keeps the
// views fresh: checks per second, one figure a round.
func measureSoldOut(ctx context.Context, o options, program string) ([]float64, error) {
	say("soldout: the check from memory")
	server, err := startRedis(ctx, program, durabilities()[0], 8)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	s, err := inventory.New(inventory.Config{Redis: server.client, Replica: "bench", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if err := sellOut(ctx, s); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	item := benchSale().Item
	if err := awaitSoldOut(ctx, s, item); err != nil {
		return nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var rates []float64
	wrong := 0
	for range o.pairs {
		r := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				if v, ok := s.ViewOfItem(item); !ok || !v.SoldOut {
					wrong++
				}
			}
		})
		rates = append(rates, float64(r.N)/r.T.Seconds())
	}
	if wrong > 0 {
		return nil, errors.New("the sale was not sold out all the time")
	}
	return rates, nil
}

// sellOut opens the sale with one unit and sells it.
func sellOut(ctx context.Context, s *inventory.Store) error {
	sale := benchSale()
	sale.Total = 1
	if _, err := s.Preheat(ctx, sale); err != nil {
		return err
	}
	id := inventory.NewOrderID(sale.ID, "somebody")
	r, err := s.Reserve(ctx, inventory.Order{ID: id, Sale: sale.ID, Item: sale.Item, User: "somebody", Quantity: 1, AttemptFor: attemptFor})
	if err != nil {
		return err
	}
	_, err = s.Confirm(ctx, sale.ID, id, r.Reservation.Attempt, "order-1")
	return err
}

func awaitSoldOut(ctx context.Context, s *inventory.Store, item string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if v, ok := s.ViewOfItem(item); ok && v.SoldOut {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the sale was never sold out")
		case <-tick.C:
		}
	}
}
