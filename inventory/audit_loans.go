package inventory

import (
	"context"
	"fmt"
	"sort"
)

// compareLoans holds the books against each other and against the counters.
// Accepted first: each of these was lent before it was accepted.
func (s *Store) compareLoans(ctx context.Context, e *entry) (d []string, proved bool, err error) {
	accepted, d, proved, err := s.proveLoans(ctx, e, "in", bucket.acceptedKey, func(l BucketLevel) int64 { return l.LentIn })
	if err != nil || !proved {
		return nil, proved, err
	}
	lent, more, proved, err := s.proveLoans(ctx, e, "out", bucket.lentKey, func(l BucketLevel) int64 { return l.LentOut })
	if err != nil || !proved {
		return nil, proved, err
	}
	d = append(d, more...)
	for id, a := range accepted {
		l, ok := lent[id]
		if !ok || l.units != a.units || l.other != a.at || l.at != a.other {
			d = append(d, fmt.Sprintf("loan %s: bucket %d accepted %d units of bucket %d, which did not lend them", id, a.at, a.units, a.other))
		}
	}
	sort.Strings(d)
	return d, true, nil
}

// proveLoans reads one kind of loan book. A book only grows, and with it its
// counter: where two readings of that agree, the book between them is whole.
func (s *Store) proveLoans(ctx context.Context, e *entry, name string, key func(bucket) string, counter func(BucketLevel) int64) (all map[string]entryOfLoan, d []string, proved bool, err error) {
	all = map[string]entryOfLoan{}
	for _, c := range e.cells {
		var sum int64
		proved = false
		for n := 0; n < auditTries && !proved; n++ {
			before, err := s.readHead(ctx, c)
			if err != nil {
				return nil, nil, false, err
			}
			if sum, err = s.bookOf(ctx, e.live, c, key(c.bucket), all); err != nil {
				return nil, nil, false, err
			}
			after, err := s.readHead(ctx, c)
			if err != nil {
				return nil, nil, false, err
			}
			if proved = counter(before.level) == counter(after.level); proved && sum != counter(after.level) {
				d = append(d, fmt.Sprintf("bucket %d: lent %s %d, its loan book says %d", c.index, name, counter(after.level), sum))
			}
		}
		if !proved {
			return nil, nil, false, nil
		}
	}
	return all, d, true, nil
}
