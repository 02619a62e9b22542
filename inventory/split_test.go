package inventory

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit_EvenSplit(t *testing.T) { splits(t, 5000, 500, 500) }
func TestSplit_RemainderGoesToLastBucket(t *testing.T) {
	splits(t, 5005, 500, 505)
	splits(t, 1005, 100, 105)
}
func TestSplit_EvenThousand(t *testing.T) { splits(t, 1000, 100, 100) }
func TestSplit_ZeroStock(t *testing.T)    { splits(t, 0, 0, 0) }

func splits(t *testing.T, total, each, last int64) {
	t.Helper()
	want := append(slices.Repeat([]int64{each}, 9), last)
	got, err := Split(total, 10, 1000)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Split(%d, 10) = %v, %v; want %v", total, got, err, want)
	}
}

func TestSplit_RejectsUnsafeConfig(t *testing.T) {
	for _, c := range []struct {
		total int64
		n     int
		limit int64
	}{
		{5000, 10, 0}, {5000, 10, -1}, {5000, 10, 100}, {5005, 10, 504}, {-1, 10, 1000}, {10, 0, 1000}, {10, -1, 1000},
	} {
		if got, err := Split(c.total, c.n, c.limit); !errors.Is(err, ErrInvalidPreheat) || got != nil {
			t.Errorf("Split(%d, %d, %d) = %v, %v", c.total, c.n, c.limit, got, err)
		}
	}
}

func TestSplit_LosesNoUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, n := rapid.Int64Range(0, maxUnits).Draw(t, "total"), rapid.IntRange(1, 50).Draw(t, "n")
		parts, err := Split(total, n, max(total, 1))
		if err != nil || len(parts) != n {
			t.Fatalf("%v, %v", parts, err)
		}
		sum := int64(0)
		for _, p := range parts {
			sum += p
			if p < 0 || p > parts[n-1] {
				t.Fatalf("%v", parts)
			}
		}
		if sum != total {
			t.Fatalf("%d became %d", total, sum)
		}
	})
}

func TestBucketCount_SmallStockTakesFewerBuckets(t *testing.T) {
	for _, c := range []struct {
		total   int64
		masters int
		want    int
	}{{0, 10, 1}, {9, 10, 1}, {19, 10, 1}, {20, 10, 2}, {99, 10, 9}, {100, 10, 10}, {5000, 10, 10}, {5000, 1, 1}, {5000, 0, 1}} {
		if got := BucketCount(c.total, c.masters); got != c.want {
			t.Errorf("BucketCount(%d, %d) = %d, want %d", c.total, c.masters, got, c.want)
		}
	}
}
