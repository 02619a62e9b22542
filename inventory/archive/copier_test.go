package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/inventory"
)

// wantSame proves that the archive has exactly the shelf's reservations.
func wantSame(t *testing.T, d *DB, rows []inventory.Reservation) {
	t.Helper()
	all := checkArchive(t, d, "sale-1")
	for _, r := range rows {
		if all[r.ID] != r {
			t.Fatalf("%s: archived %+v, in the ledger %+v", r.ID, all[r.ID], r)
		}
	}
	if len(all) != len(rows) {
		t.Fatalf("%d archived, %d in the ledger", len(all), len(rows))
	}
}

func TestACopyIsTheLedgerAndARepeatChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		s, rows := newShelf(), manyRows(3*inventory.ArchiveSlice+7)
		s.put(plan(200), rows...)
		c := newCopier(t, s, d, nil)
		for range 2 {
			done, err := c.Copy(t.Context(), "sale-1")
			must(t, err)
			if done.Rows != int64(len(rows)) || !done.Complete || done.Missing != "" || done.Open != 0 {
				t.Fatalf("copied %+v", done)
			}
			wantSame(t, d, rows)
		}
		_, err := c.Copy(t.Context(), "sale-2")
		wantError(t, err, inventory.ErrUnknownSale)
	})
}

// counted is a ledger that is made while it is walked.
type counted struct {
	*shelf
	n, out int
}

func (c *counted) Ledger(_ context.Context, _ string, fn func(inventory.Reservation) error) error {
	for i := range c.n {
		c.out++
		if err := fn(row(i, inventory.Released, 1)); err != nil {
			return err
		}
	}
	return nil
}

// counter watches how many reservations are between ledger and archive.
type counter struct {
	inventory.Archive
	source *counted
	saved  int
	most   int
}

func (c *counter) Save(ctx context.Context, sale inventory.Sale, rows []inventory.Reservation) error {
	c.most = max(c.most, c.source.out-c.saved, len(rows))
	c.saved += len(rows)
	return c.Archive.Save(ctx, sale, rows)
}

func TestALargeSaleIsCopiedWithOneSliceInMemory(t *testing.T) {
	source := &counted{shelf: newShelf(), n: 100_000}
	if testing.Short() {
		source.n = 5_000
	}
	source.put(plan(1))
	archive := &counter{Archive: open(t, newSQLite(t)), source: source}
	done, err := newCopier(t, source, archive, nil).Copy(t.Context(), "sale-1")
	must(t, err)
	if done.Rows != int64(source.n) || archive.saved != source.n || archive.most != inventory.ArchiveSlice {
		t.Fatalf("%d copied, %d saved, at most %d in memory", done.Rows, archive.saved, archive.most)
	}
	var n int
	must(t, archive.Archive.(*DB).read.QueryRow("SELECT count(*) FROM reservations").Scan(&n))
	if n != source.n {
		t.Fatalf("%d archived", n)
	}
}

func TestAPassThatBrokeIsMadeWholeByTheNext(t *testing.T) {
	const slices = 4
	each(t, func(t *testing.T, d *DB) {
		n := 0
		for _, at := range []int{1, 3, slices + 1} {
			for _, kind := range []string{"failed", "failed but applied", "stopped", "stopped but applied"} {
				n++
				sale, rows := plan(200), manyRows(slices*inventory.ArchiveSlice+1)
				sale.ID = fmt.Sprintf("sale-%d", n)
				for i := range rows {
					rows[i].ID, rows[i].Sale = fmt.Sprint(n, "-", rows[i].ID), sale.ID
				}
				s := newShelf()
				s.put(sale, rows...)
				save(t, d, sale)
				broken := &saboteur{Archive: d, at: at, applied: strings.HasSuffix(kind, "applied")}
				ctx, cancel := context.WithCancel(t.Context())
				if strings.HasPrefix(kind, "stopped") {
					broken.stop = cancel
				}
				c := newCopier(t, s, broken, nil)
				if _, err := c.Copy(ctx, sale.ID); err == nil {
					t.Fatalf("%s at slice %d: no error", kind, at)
				}
				cancel()
				checkArchive(t, d, sale.ID)
				done, err := c.Copy(t.Context(), sale.ID)
				if err != nil || !done.Complete || len(checkArchive(t, d, sale.ID)) != len(rows) {
					t.Fatalf("%s at slice %d: %+v, %v", kind, at, done, err)
				}
			}
		}
	})
}

func TestAReturnedUnitThatWasSoldAgainIsNoOversell(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		s := newShelf()
		first := row(9999, inventory.Confirmed, 1)
		s.put(plan(1), first)
		c := newCopier(t, s, d, nil)
		_, err := c.Copy(t.Context(), "sale-1")
		must(t, err)
		// The walk brings the second buyer a slice before the first one's return.
		s = newShelf()
		rows := []inventory.Reservation{row(1, inventory.Confirmed, 1)}
		for i := range 2 * inventory.ArchiveSlice {
			rows = append(rows, row(100+i, inventory.Released, 1))
		}
		first.State = inventory.Returned
		rows = append(rows, first)
		s.put(plan(1), rows...)
		done, err := newCopier(t, s, d, nil).Copy(t.Context(), "sale-1")
		must(t, err)
		if !done.Complete || done.Rows != int64(len(rows)) {
			t.Fatalf("copied %+v", done)
		}
		wantSame(t, d, rows)
	})
}

func TestAnOversoldSaleIsLoudAndStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		s := newShelf()
		var rows []inventory.Reservation
		for i := range inventory.ArchiveSlice + 50 {
			rows = append(rows, row(i, inventory.Confirmed, 1))
		}
		s.put(plan(147), rows...)
		other := plan(5)
		other.ID = "sale-2"
		s.put(other, row(777, inventory.Confirmed, 1))
		c := newCopier(t, s, d, nil)
		c.round(t.Context())
		if len(c.passes) != 2 || !errors.Is(c.errs[0], inventory.ErrOversold) || c.errs[1] != nil {
			t.Fatalf("passes %+v, errors %v", c.passes, c.errs)
		}
		if got := c.passes[0]; got.Rows != 147 || got.Complete || fmt.Sprint(got.Refused) != "[id-0000147 id-0000148 id-0000149]" {
			t.Fatalf("copied %+v", got)
		}
		if len(checkArchive(t, d, "sale-1")) != 147 || len(checkArchive(t, d, "sale-2")) != 1 {
			t.Fatal("not all that may be stored is")
		}
		for _, want := range []string{"level=ERROR", "sale-1", "id-0000147", inventory.ErrOversold.Error()} {
			if !strings.Contains(c.log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, c.log.String())
			}
		}
		if st := c.Status(); st[0].Err == nil || st[0].Failures != 1 || st[1].Err != nil {
			t.Fatalf("status %+v", st)
		}
	})
}

func TestReplicasThatCopyAtOnceDoNoHarm(t *testing.T) {
	two(t, func(t *testing.T, d [2]*DB) {
		s, rows := newShelf(), manyRows(5*inventory.ArchiveSlice)
		s.put(plan(200), rows...)
		var group sync.WaitGroup
		for i := range 4 {
			c := newCopier(t, s, d[i%2], nil)
			group.Go(func() {
				if done, err := c.Copy(t.Context(), "sale-1"); err != nil || !done.Complete {
					t.Errorf("%+v, %v", done, err)
				}
			})
		}
		group.Wait()
		wantSame(t, d[0], rows)
	})
}
