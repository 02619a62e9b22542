package inventory

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkReserve is one script per order on a real Redis with an append-only
// file that is not synced: a win, the sold-out answer, and a known order.
func BenchmarkReserve(b *testing.B) {
	for name, total := range map[string]int64{"win": maxUnits, "none free": 1} {
		b.Run(name, func(b *testing.B) {
			v := realEnv(b)
			sale := v.openSale(b, total, nil)
			if _, err := v.store.Reserve(b.Context(), order(sale, "first", 1)); err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(16) // connections waiting beside each other on few cores
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				user := strings.Repeat("u", 16)
				for pb.Next() {
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
