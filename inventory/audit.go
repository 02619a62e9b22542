package inventory

import (
	"context"
	"fmt"
	"sort"
	"strconv"
)

const (
	scanCount  = 512 // fields asked for at a time, so that no call blocks Redis
	auditTries = 8
	maxShown   = 32 // differences listed
)

// Audit is the proof of the books.
type Audit struct {
	OK bool
	// Proved: the books were read while they rested. Else nobody knows.
	Proved      bool
	Level       Level
	Differences []string // at most 32; "" free of doubt when OK
}

// Ledger calls fn for each reservation, tombstones too, in no order. It walks
// in slices while the sale goes on: what changes meanwhile may be seen in
// either state, and a record may come more than once. An error of fn ends it.
func (s *Store) Ledger(ctx context.Context, sale string, fn func(Reservation) error) error {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return err
	}
	if e.gone() && s.archive != nil {
		return s.archive.Each(ctx, sale, fn)
	}
	for _, c := range e.cells {
		if err := s.ledgerOf(ctx, e, c, fn); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) ledgerOf(ctx context.Context, e *entry, c *cell, fn func(Reservation) error) error {
	text, err := s.redis.HGet(ctx, c.headKey(), "epoch").Result()
	if err != nil {
		return fmt.Errorf("walking the ledger: %w", mapRead(err))
	}
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("bucket %d of %s: epoch: %w", c.index, c.sale, err)
	}
	return s.scan(ctx, c.ledgerKey(), func(id, text string) error {
		r, err := parseRecord(e, c, epoch, id, text)
		if err != nil {
			return err
		}
		return fn(r)
	})
}

func (s *Store) scan(ctx context.Context, key string, fn func(field, value string) error) error {
	for cursor := uint64(0); ; {
		kv, next, err := s.redis.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return fmt.Errorf("walking the ledger: %w", mapRead(err))
		}
		for i := 0; i+1 < len(kv); i += 2 {
			if kv[i] == "" {
				continue // keeps the key from being empty
			}
			if err := fn(kv[i], kv[i+1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Audit walks the ledger and compares it with the counters, bucket by bucket:
// sums by state, units per buyer, the invariant. Then it compares the loan
// books, first what was accepted and then what was lent, so that no loan is seen
// on one side only because it was on its way. A walk during which a bucket
// changed proves nothing and is done again, a few times; then the audit is not
// OK and says so.
func (s *Store) Audit(ctx context.Context, sale string) (Audit, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return Audit{}, err
	}
	if e.gone() {
		return s.auditArchive(ctx, e)
	}
	var differences []string
	for range auditTries {
		before, err := s.readHeads(ctx, e.live)
		if err != nil {
			return Audit{}, err
		}
		if differences, err = s.auditBuckets(ctx, e, before); err != nil {
			return Audit{}, err
		}
		after, err := s.readHeads(ctx, e.live)
		if err != nil {
			return Audit{}, err
		}
		if equalVersions(before, after) {
			return Audit{OK: len(differences) == 0, Proved: true, Level: addUpLevels(sale, after), Differences: differences[:min(len(differences), maxShown)]}, nil
		}
	}
	level, err := s.Level(ctx, sale)
	return Audit{Level: level, Differences: []string{"the stock changed during every walk: nothing is proved"}}, err
}

func (s *Store) auditBuckets(ctx context.Context, e *entry, heads []*head) (d []string, err error) {
	for i, c := range e.cells {
		b, err := s.addUp(ctx, e, c)
		if err != nil {
			return nil, err
		}
		d = append(d, b.compare(heads[i].level)...)
	}
	loans, err := s.compareLoans(ctx, e, heads)
	if err != nil {
		return nil, err
	}
	d = append(d, loans...)
	if l := addUpLevels(e.view.Sale.ID, heads); l.Total != e.view.Sale.Total {
		d = append(d, fmt.Sprintf("the buckets were planned with %d units, the sale with %d", l.Total, e.view.Sale.Total))
	}
	return d, nil
}

// books are one bucket's ledger, added up.
type books struct {
	byState map[State]int64
	owed    map[string]int64 // user -> units that count to his limit, from the ledger
	counted map[string]int64 // the same, as the scripts counted
}

func (s *Store) addUp(ctx context.Context, e *entry, c *cell) (books, error) {
	b := books{byState: map[State]int64{}, owed: map[string]int64{}, counted: map[string]int64{}}
	once := map[string]bool{} // HSCAN may give a field twice
	err := s.ledgerOf(ctx, e, c, func(r Reservation) error {
		if once[r.ID] {
			return nil
		}
		once[r.ID] = true
		b.byState[r.State] += r.Quantity
		if r.User != "" && (r.State == Reserved || r.State == Confirmed) {
			b.owed[r.User] += r.Quantity
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	err = s.scan(ctx, c.buyersKey(), func(user, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		b.counted[user] = n
		return err
	})
	return b, err
}

func (b books) compare(l BucketLevel) []string {
	var d []string
	check := func(what string, counter, ledger int64) {
		if counter != ledger {
			d = append(d, fmt.Sprintf("bucket %d: %s: the counter says %d, the ledger %d", l.Index, what, counter, ledger))
		}
	}
	check("reserved", l.Reserved, b.byState[Reserved])
	check("confirmed", l.Confirmed, b.byState[Confirmed])
	check("free", l.Free, l.Planned+l.LentIn-l.LentOut-b.byState[Reserved]-b.byState[Confirmed])
	if l.Free < 0 || l.Reserved < 0 || l.Confirmed < 0 || l.LentIn < 0 || l.LentOut < 0 {
		d = append(d, fmt.Sprintf("bucket %d: a counter is negative: %+v", l.Index, l))
	}
	users := make([]string, 0, len(b.counted))
	for u := range b.counted {
		users = append(users, u)
	}
	for u := range b.owed {
		if _, ok := b.counted[u]; !ok {
			users = append(users, u)
		}
	}
	sort.Strings(users)
	for _, u := range users {
		check(fmt.Sprintf("units of buyer %q", u), b.counted[u], b.owed[u])
	}
	return d
}

// compareLoans holds the books against each other and against the counters.
func (s *Store) compareLoans(ctx context.Context, e *entry, heads []*head) ([]string, error) {
	accepted, err := s.books(ctx, e.live, bucket.acceptedKey)
	if err != nil {
		return nil, err
	}
	lent, err := s.books(ctx, e.live, bucket.lentKey)
	if err != nil {
		return nil, err
	}
	in, out := make([]int64, len(heads)), make([]int64, len(heads))
	var d []string
	for id, a := range accepted {
		in[a.at] += a.units
		l, ok := lent[id]
		if !ok || l.units != a.units || l.other != a.at || l.at != a.other {
			d = append(d, fmt.Sprintf("loan %s: bucket %d accepted %d units of bucket %d, which did not lend them", id, a.at, a.units, a.other))
		}
	}
	for _, l := range lent {
		out[l.at] += l.units
	}
	for i, h := range heads {
		if in[i] != h.level.LentIn || out[i] != h.level.LentOut {
			d = append(d, fmt.Sprintf("bucket %d: lent in %d and out %d, its loan books say %d and %d", i, h.level.LentIn, h.level.LentOut, in[i], out[i]))
		}
	}
	sort.Strings(d)
	return d, nil
}

// auditArchive adds an archived sale up.
func (s *Store) auditArchive(ctx context.Context, e *entry) (Audit, error) {
	level, err := s.archivedLevel(ctx, e)
	if err != nil {
		return Audit{}, err
	}
	var confirmed int64
	err = s.archive.Each(ctx, e.view.Sale.ID, func(r Reservation) error {
		if r.State == Confirmed {
			confirmed += r.Quantity
		}
		return nil
	})
	if err != nil {
		return Audit{}, err
	}
	a := Audit{OK: true, Proved: true, Level: level}
	if confirmed != level.Confirmed || level.Free < 0 {
		a.OK = false
		a.Differences = []string{fmt.Sprintf("archive: sold %d of %d, its reservations say %d", level.Confirmed, level.Total, confirmed)}
	}
	return a, nil
}
