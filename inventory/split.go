package inventory

import "fmt"

// Split divides total units over n buckets: each gets total/n and the last one
// also the remainder. It is pure. ErrInvalidPreheat when n or limit is below 1,
// total is negative or the largest bucket would pass limit.
//
// Split(5005, 10, 1000) = nine times 500, then 505.
func Split(total int64, n int, limit int64) ([]int64, error) {
	switch {
	case total < 0:
		return nil, fmt.Errorf("%w: total %d is negative", ErrInvalidPreheat, total)
	case n <= 0:
		return nil, fmt.Errorf("%w: %d buckets", ErrInvalidPreheat, n)
	case limit <= 0:
		return nil, fmt.Errorf("%w: bucket cap %d", ErrInvalidPreheat, limit)
	}
	base := total / int64(n)
	last := total - base*int64(n-1)
	if last > limit {
		return nil, fmt.Errorf("%w: the largest bucket would hold %d units, its cap is %d", ErrInvalidPreheat, last, limit)
	}
	parts := make([]int64, n)
	for i := range parts {
		parts[i] = base
	}
	parts[n-1] = last
	return parts, nil
}

// BucketCount is how many buckets a sale takes on a cluster of masters: one per
// master, fewer when there would be less than ten units in each, at least 1.
// Small stocks in many buckets would only be walked for leftovers.
func BucketCount(total int64, masters int) int {
	return int(max(1, min(int64(masters), total/10)))
}
