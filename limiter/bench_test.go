package limiter_test

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"weir/limiter"
)

func unsafeString(b []byte) string { return unsafe.String(&b[0], len(b)) }

func fourLayers(rate float64) []limiter.Layer {
	return []limiter.Layer{
		{Name: "user", Rate: rate, Burst: 1},
		{Name: "addr", Rate: rate * 10, Burst: 10},
		{Name: "item", Rate: 1e9, Burst: 1 << 30, Concurrency: 1000},
		{Name: "all", Rate: 1e9, Burst: 1 << 30},
	}
}

func TestTakeOfKnownKeysDoesNotAllocate(t *testing.T) {
	for name, rate := range map[string]float64{"allowed": 1e7, "refused": 1e-3} {
		s := stack(t, time.Now, fourLayers(rate)...)
		keys := limiter.Keys{"u", "a", "i", "all"}
		d := s.Take(keys)
		d.Done()
		n := testing.AllocsPerRun(1000, func() {
			d := s.Take(keys)
			d.Done()
		})
		want(t, name, n, 0)
	}
}

func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name string
		rate float64
	}{{"allowed", 1e7}, {"refused", 1e-3}} {
		b.Run(c.name, func(b *testing.B) {
			s := stack(b, time.Now, fourLayers(c.rate)...)
			names := make([]string, 1024)
			for i := range names {
				names[i] = fmt.Sprint("user-", i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				keys := limiter.Keys{"", "198.51.100.7", "1001", "all"}
				for i := 0; pb.Next(); i++ {
					keys[0] = names[i&1023]
					d := s.Take(keys)
					d.Done()
				}
			})
		})
	}
	b.Run("new key, full table", func(b *testing.B) {
		s := stack(b, time.Now, limiter.Layer{Name: "user", Rate: 1e-3, Burst: 1, Size: 1024})
		b.ReportAllocs()
		var buf [8]byte
		for i := range b.N {
			for j := range buf {
				buf[j] = byte('a' + i>>(4*j)&15)
			}
			s.Take(limiter.Keys{unsafeString(buf[:])})
		}
	})
}
