package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
)

const (
	auditTries = 8
	maxShown   = 32 // differences listed
)

// Audit is the proof of the books.
type Audit struct {
	OK bool
	// Proved: the books were added up as they stood at one moment. Else nobody knows.
	Proved      bool
	Level       Level
	Differences []string // at most 32; "" free of doubt when OK
}

// Audit adds the ledger up and compares it with the counters, bucket by bucket,
// while the sale goes on: sums by state, units per buyer, the invariant. The
// scripts tell the walk what changes meanwhile, so each bucket is proved for one
// moment. Then it compares the loan books, first what was accepted and then what
// was lent, so that no loan is seen on one side only because it was on its way.
// Every hold must stand in a list that frees it, and the archive, read before
// the ledger, must not know more than it.
// Where that does not come off a few times, the audit is not OK and says so.
func (s *Store) Audit(ctx context.Context, sale string) (Audit, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return Audit{}, err
	}
	if e.gone() {
		return s.auditArchive(ctx, e)
	}
	a := Audit{Proved: true}
	rows, err := s.archivedRows(ctx, sale)
	if err != nil {
		a.found(false, fmt.Sprintf("the archive cannot be read (%v)", err))
		rows = nil
	}
	heads := make([]*head, len(e.cells))
	for i, c := range e.cells {
		b, proved, err := s.proveBucket(ctx, e, c)
		if err != nil {
			return Audit{}, err
		}
		a.found(proved, fmt.Sprintf("bucket %d changed during every walk", i), slices.Concat(b.compare(), b.unkept(e, c), b.behind(i, rows))...)
		holds, proved, err := s.unlisted(ctx, c, b)
		if err != nil {
			return Audit{}, err
		}
		a.found(proved, fmt.Sprintf("the holds of bucket %d changed during the walk", i), holds...)
		heads[i] = &head{level: b.level, at: b.at}
	}
	if a.Level = addUpLevels(sale, heads); !a.Proved {
		if a.Level, err = s.Level(ctx, sale); err != nil {
			return Audit{}, err
		}
	}
	if a.Level.Total != e.view.Sale.Total {
		a.found(true, "", fmt.Sprintf("the buckets were planned with %d units, the sale with %d", a.Level.Total, e.view.Sale.Total))
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		a.found(true, "", fmt.Sprintf("reservation %s is %s in the archive, and the ledger does not have it", id, rows[id]))
	}
	loans, proved, err := s.compareLoans(ctx, e)
	if err != nil {
		return Audit{}, err
	}
	a.found(proved, "the loan books changed during every walk", loans...)
	a.OK = a.Proved && len(a.Differences) == 0
	a.Differences = a.Differences[:min(len(a.Differences), maxShown)]
	return a, nil
}

// unkept lists the wins that this replica told and that the ledger has no more,
// while the sale is paused for a person to look at: who resumes it has judged.
func (b *books) unkept(e *entry, c *cell) []string {
	var d []string
	if e.view.Desired != DesiredPaused {
		return nil
	}
	for _, r := range c.unkept.all() {
		if have := b.records[r.ID].state; have != r.State && have != Confirmed {
			d = append(d, fmt.Sprintf("bucket %d: reservation %s: %d units were told to %q as his, the ledger says %q, and none are left for him",
				c.index, r.ID, r.Quantity, r.User, have))
		}
	}
	return d
}

// found notes what a walk found, or that it came to nothing.
func (a *Audit) found(proved bool, unproved string, differences ...string) {
	if !proved {
		a.Proved = false
		differences = []string{unproved + ": nothing is proved"}
	}
	a.Differences = append(a.Differences, differences...)
}

// compare holds a bucket's counters against its ledger.
func (b *books) compare() []string {
	var d []string
	l, byState, owed := b.level, map[State]int64{}, map[string]int64{}
	for _, r := range b.records {
		byState[r.state] += r.quantity
		if r.user != "" && (r.state == Reserved || r.state == Confirmed) {
			owed[r.user] += r.quantity
		}
	}
	check := func(what string, counter, ledger int64) {
		if counter != ledger {
			d = append(d, fmt.Sprintf("bucket %d: %s: the counter says %d, the ledger %d", l.Index, what, counter, ledger))
		}
	}
	check("reserved", l.Reserved, byState[Reserved])
	check("confirmed", l.Confirmed, byState[Confirmed])
	check("free", l.Free, l.Planned+l.LentIn-l.LentOut-byState[Reserved]-byState[Confirmed])
	if l.Free < 0 || l.Reserved < 0 || l.Confirmed < 0 || l.LentIn < 0 || l.LentOut < 0 {
		d = append(d, fmt.Sprintf("bucket %d: a counter is negative: %+v", l.Index, l))
	}
	users := make([]string, 0, len(b.counted))
	for u := range b.counted {
		users = append(users, u)
	}
	for u := range owed {
		if _, ok := b.counted[u]; !ok {
			users = append(users, u)
		}
	}
	sort.Strings(users)
	for _, u := range users {
		check(fmt.Sprintf("units of buyer %q", u), b.counted[u], owed[u])
	}
	return d
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
