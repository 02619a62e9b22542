package archive

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/inventory"
)

const day = 24 * time.Hour

// ended is a shelf whose sale ended d ago, copied by nobody yet.
func ended(d time.Duration, rows ...inventory.Reservation) *shelf {
	s := newShelf()
	s.put(plan(200), rows...)
	s.now = plan(1).EndAt.Add(d)
	return s
}

func TestASaleIsDeletedOnlyAfterItsEndAndTheHorizon(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		rows := manyRows(150)
		s := ended(day-time.Hour, rows...)
		c := newCopier(t, s, d, nil)
		rounds(t, s, time.Hour-time.Second, c)
		if len(s.cleaned) != 0 {
			t.Fatal("deleted too early")
		}
		rounds(t, s, 2*time.Minute, c)
		if len(s.cleaned) != 1 || !c.passes[len(c.passes)-1].Deleted || len(c.Status()) != 0 {
			t.Fatalf("deleted %d times, status %+v", len(s.cleaned), c.Status())
		}
		passes := len(c.passes)
		rounds(t, s, time.Hour, c)
		if len(s.cleaned) != 1 || len(c.passes) != passes {
			t.Fatalf("a sale that is gone is copied again: %d passes, deleted %d times", len(c.passes), len(s.cleaned))
		}
		wantSame(t, d, rows)
	})
}

func TestTheClockOfRedisDecidesNotOurs(t *testing.T) {
	s := ended(time.Hour, manyRows(10)...)
	c := newCopier(t, s, open(t, newSQLite(t)), func(c *CopierConfig) { c.Now = func() time.Time { return plan(1).EndAt.Add(2 * day) } })
	c.round(t.Context())
	c.tried(-time.Hour)
	c.round(t.Context())
	if len(c.passes) != 2 || len(s.cleaned) != 0 {
		t.Fatalf("%d passes, deleted %d", len(c.passes), len(s.cleaned))
	}
}

// tried moves the last look into the past.
func (c *copies) tried(d time.Duration) { c.progress("sale-1").tried = c.config.Now().Add(d) }

func TestASaleThatIsNotProvedStaysInRedis(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		n := 0
		for says, spoil := range map[string]func(s *shelf, d *DB, sale inventory.Sale){
			"still reserved": func(s *shelf, _ *DB, sale inventory.Sale) { s.put(sale, row(1, inventory.Reserved, 1)) },
			"changed during the pass": func(s *shelf, _ *DB, sale inventory.Sale) {
				s.walking = func(int) { s.put(sale, row(1, inventory.Released, 1)) }
			},
			"on loan": func(s *shelf, _ *DB, sale inventory.Sale) {
				v := s.views[sale.ID]
				v.Level.OnLoan = 1
				s.views[sale.ID] = v
			},
			"5 units sold, the ledger 4": func(_ *shelf, d *DB, sale inventory.Sale) {
				r := row(99, inventory.Confirmed, 1)
				r.ID, r.Sale = sale.ID+"lost", sale.ID
				save(t, d, sale, r)
			},
			"is released in the ledger, expired in the archive": func(s *shelf, d *DB, sale inventory.Sale) {
				r := row(99, inventory.Expired, 1)
				r.ID, r.Sale = sale.ID+"odd", sale.ID
				save(t, d, sale, r)
				r.State = inventory.Released
				s.put(sale, r)
			},
			"the ledger has forgotten it": func(_ *shelf, d *DB, sale inventory.Sale) {
				r := row(99, inventory.Reserved, 1)
				r.ID, r.Sale = sale.ID+"gone", sale.ID
				save(t, d, sale, r)
			},
		} {
			n++
			sale := plan(200)
			sale.ID = "sale-" + strings.Repeat("x", n)
			s := newShelf()
			for i := range 4 {
				r := row(i, inventory.Confirmed, 1)
				r.ID = sale.ID + r.ID
				s.put(sale, r)
			}
			spoil(s, d, sale)
			s.now = sale.EndAt.Add(2 * day)
			c := newCopier(t, s, d, nil)
			rounds(t, s, 3*time.Minute, c)
			if err := c.errs[len(c.errs)-1]; len(s.cleaned) != 0 || err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: deleted %d, error %v", says, len(s.cleaned), err)
			}
			if !strings.Contains(c.log.String(), "stays in Redis") {
				t.Errorf("%s: not loud: %s", says, c.log.String())
			}
		}
	})
}

func TestASaleThatCannotBeProvedIsTriedLessAndLessOften(t *testing.T) {
	s := ended(2*day, row(1, inventory.Reserved, 1))
	c := newCopier(t, s, open(t, newSQLite(t)), nil)
	wantPasses(t, "in half an hour", rounds(t, s, 30*time.Minute, c), 5) // at its end, then after 1, 2, 4, 8 minutes
	s.put(plan(200), row(1, inventory.Released, 1))
	wantPasses(t, "until it is deleted", rounds(t, s, 20*time.Minute, c), 1)
	if len(s.cleaned) != 1 {
		t.Fatal("it is not deleted")
	}
}

func TestACleanupThatFailedIsTriedAgain(t *testing.T) {
	for name, applied := range map[string]bool{"failed": false, "failed but applied": true} {
		t.Run(name, func(t *testing.T) {
			s := ended(2*day, manyRows(150)...)
			calls := 0
			s.cleaning = func() (bool, error) {
				if calls++; calls == 1 {
					return applied, inventory.ErrOutcomeUnknown
				}
				return true, nil
			}
			d := open(t, newSQLite(t))
			c := newCopier(t, s, d, nil)
			rounds(t, s, 5*time.Minute, c)
			if calls != 2 || !s.Views()[0].Gone {
				t.Fatalf("%d calls, %+v", calls, s.Views())
			}
			wantSame(t, d, manyRows(150))
		})
	}
}

func TestAPassThatIsStoppedIsNoFailure(t *testing.T) {
	s := ended(0, manyRows(150)...)
	ctx, cancel := context.WithCancel(t.Context())
	s.walking = func(n int) {
		if n == 120 {
			cancel()
		}
	}
	d := open(t, newSQLite(t))
	c := newCopier(t, s, d, nil)
	c.round(ctx)
	if len(c.passes) != 0 || c.log.Len() != 0 {
		t.Fatalf("passes %+v, log %s", c.passes, c.log.String())
	}
	s.walking = func(int) {}
	done, err := c.Copy(t.Context(), "sale-1")
	if err != nil || !done.Complete {
		t.Fatalf("%+v, %v", done, err)
	}
	wantSame(t, d, manyRows(150))
}

func TestACleanupThatDiedWithItsProcessIsFinishedByTheNext(t *testing.T) {
	s := ended(2*day, manyRows(150)...)
	must(t, s.Cleanup(t.Context(), "sale-1"))
	c := newCopier(t, s, open(t, newSQLite(t)), nil)
	wantPasses(t, "nothing is left to copy", rounds(t, s, time.Hour, c), 0)
	if len(s.cleaned) != 2 {
		t.Fatalf("cleaned up %d times, want once more", len(s.cleaned)-1)
	}
	if done, err := c.Copy(t.Context(), "sale-1"); err != nil || !done.Deleted {
		t.Fatalf("%+v, %v", done, err)
	}
}
