package archive

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"weir/inventory"
)

// two opens the archive twice, as two processes would.
func two(t *testing.T, test func(t *testing.T, d [2]*DB)) {
	eachDatabase(t, func(t *testing.T, dsn string) { test(t, [2]*DB{open(t, dsn), open(t, dsn)}) })
}

// storm runs act n times, on both, at once.
func storm(d [2]*DB, n int, act func(d *DB, i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { act(d[i%2], i) })
	}
	group.Wait()
}

func TestTheSameSliceAtOnceCountsOnce(t *testing.T) {
	two(t, func(t *testing.T, d [2]*DB) {
		for round := range 5 {
			rows := make([]inventory.Reservation, inventory.ArchiveSlice)
			for i := range rows {
				rows[i] = row(1000*round+i, inventory.Confirmed, 1)
			}
			storm(d, 8, func(d *DB, _ int) {
				if err := d.Save(t.Context(), plan(500), rows); err != nil {
					t.Error(err)
				}
			})
		}
		checkArchive(t, d[0], "sale-1")
		wantSold(t, d[1], 500)
	})
}

func TestTheLastUnitAtOnceIsSoldOnce(t *testing.T) {
	two(t, func(t *testing.T, d [2]*DB) {
		var taken, refused atomic.Int64
		storm(d, 24, func(d *DB, i int) {
			switch err := d.Save(t.Context(), plan(7), []inventory.Reservation{row(i, inventory.Confirmed, 1)}); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, inventory.ErrOversold):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		checkArchive(t, d[0], "sale-1")
		if taken.Load() != 7 || refused.Load() != 17 {
			t.Fatalf("%d taken, %d refused", taken.Load(), refused.Load())
		}
	})
}

func TestSettleAndSaveAtOnceTakeEachArrowOnce(t *testing.T) {
	two(t, func(t *testing.T, d [2]*DB) {
		rows := make([]inventory.Reservation, 12)
		for i := range rows {
			rows[i] = row(i, inventory.Expired, 1)
		}
		save(t, d[0], plan(5), rows...)
		answers := [36]inventory.State{}
		storm(d, len(answers), func(d *DB, i int) {
			r, err := d.Settle(t.Context(), rows[i%12].ID, inventory.Confirmed, 0, "")
			if err != nil {
				t.Error(err)
			}
			answers[i] = r.State
			if err := d.Save(t.Context(), plan(5), rows); err != nil {
				t.Error(err)
			}
		})
		all := checkArchive(t, d[0], "sale-1")
		for i, state := range answers {
			if all[rows[i%12].ID].State != state {
				t.Errorf("%s was told %s and is %s", rows[i%12].ID, state, all[rows[i%12].ID].State)
			}
		}
		wantSold(t, d[1], 5)
	})
}
