package inventory

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
)

// BenchmarkReserve is a full reserve on a real Redis with an append-only file that is not synced, by 256
// callers: wins, with flights and one script an order, and the answer of a sale whose units are all held.
func BenchmarkReserve(b *testing.B) {
	for _, c := range []struct {
		name  string
		total int64
		batch int
	}{{"wins/flights", maxUnits, 0}, {"wins/one by one", maxUnits, 1}, {"none free/flights", 1, 0}} {
		b.Run(c.name, func(b *testing.B) {
			v := realEnv(b)
			v.store.batch = max(c.batch, 1)
			if c.batch == 0 {
				v.store.batch = maxBatch
			}
			sale := v.openSale(b, c.total, nil)
			if _, err := v.store.Reserve(b.Context(), order(sale, "first", 1)); err != nil {
				b.Fatal(err)
			}
			var users atomic.Int64
			b.SetParallelism(128)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					user := "user-" + strconv.FormatInt(users.Add(1), 10)
					if _, err := v.store.Reserve(b.Context(), order(sale, user, 1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}

// BenchmarkView is what each request pays before it goes to Redis.
func BenchmarkView(b *testing.B) {
	v := memoryEnv(b)
	for i := range 10 {
		v.openSale(b, 10, func(s *Sale) { s.ID, s.Item = fmt.Sprint("s", i), fmt.Sprint("i", i) })
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := v.store.ViewOfItem("i7"); !ok {
			b.Fatal("no view")
		}
	}
}

// BenchmarkSoldOut is the whole of a sold-out answer, with the coarse clock that Run keeps going.
func BenchmarkSoldOut(b *testing.B) {
	v := realEnv(b)
	sale := v.openSale(b, 1, nil)
	o := order(sale, "ann", 1)
	if _, err := v.store.Reserve(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	if _, err := v.store.Confirm(b.Context(), sale.ID, o.ID, 1, ""); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- v.store.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	eventually(b, "the sale is sold out", func() bool { seen, _ := v.store.ViewOfItem(sale.Item); return seen.SoldOut })
	b.ReportAllocs()
	for b.Loop() {
		if seen, ok := v.store.ViewOfItem(sale.Item); !ok || !seen.SoldOut {
			b.Fatal("not sold out any more")
		}
	}
}
