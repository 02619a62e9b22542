package inventory

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// H-22: what dead processes held, and what past sales used, stays for ever. A
// beat, a lease and a hold all end by their deadline, and a cleanup leaves no key.
func TestStock_H22_NoKeyIsLeftOfSalesThatAreOver(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		v.store.archive = newCaseArchive()
		var first []string
		for i := range pastKept + 10 {
			v.pastSale(t, i)
			must(t, v.store.Refresh(t.Context()))
			left := leftovers(t, v.client)
			if i == pastKept-1 {
				first = left
			}
			if i < pastKept {
				continue
			}
			if len(left) != len(first) {
				t.Fatalf("after %d sales: %v, after %d: %v", i+1, left, pastKept, first)
			}
			if n := v.client.HLen(t.Context(), salesKey()).Val(); n != pastKept || len(v.store.Views()) != pastKept {
				t.Fatalf("after %d sales %d records, %d views", i+1, n, len(v.store.Views()))
			}
		}
	})
}

// pastSale is number i of the sales that ran, were cancelled and cleaned up.
func (v *env) pastSale(t *testing.T, i int) (Sale, Order) {
	t.Helper()
	sale := v.spreadSale(t, []int64{2, 0}, func(s *Sale) { s.ID, s.Item = fmt.Sprint("s", i), fmt.Sprint("i", i) })
	o := order(sale, homeUser(sale.ID, 2, 1, 0), 1)
	v.reserve(t, o, takenCode(0)) // by a gatherer
	v.store.background.Wait()
	must(t, second(v.store.SetDesired(t.Context(), sale.ID, DesiredCancelled)))
	must(t, v.store.Cleanup(t.Context(), sale.ID))
	return sale, o
}

// leftovers names every key, and the fields of each hash but for the names of sales.
func leftovers(t *testing.T, c redis.Cmdable) []string {
	t.Helper()
	var all []string
	for _, key := range c.Keys(t.Context(), "*").Val() {
		if c.Type(t.Context(), key).Val() != "hash" {
			all = append(all, key)
			continue
		}
		for _, field := range c.HKeys(t.Context(), key).Val() {
			all = append(all, key+" "+field)
		}
	}
	slices.Sort(all)
	return all
}

// H-22, T-18d: what Redis has forgotten on purpose, the archive answers, and no
// replica takes it for a loss, also one that slept meanwhile.
func TestStock_H22_ASaleThatOnlyTheArchiveKnowsAnswersAsBefore(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		archive, notes := newCaseArchive(), &notebook{}
		v.store.archive = archive
		replica := func(name string) *Store {
			return v.replicaOf(t, name, func(c *Config, _ *redis.Options) { c.Archive, c.Marks = archive, notes })
		}
		sale := v.openSale(t, 10, func(s *Sale) { s.ID, s.Item, s.Buckets = "past", "past", 2 })
		paid, open := v.won(t, sale, "ann"), v.won(t, sale, "bob")
		must(t, second(v.store.Confirm(ctx, sale.ID, paid.ID, 1, "S")))
		slept := replica("slept")
		must(t, slept.Refresh(ctx))
		if _, ok := notes.kept[sale.ID]; !ok {
			t.Fatal("it has no mark")
		}
		must(t, second(v.store.SetDesired(ctx, sale.ID, DesiredCancelled)))
		must(t, v.store.Cleanup(ctx, sale.ID))
		for i := range pastKept {
			v.pastSale(t, i)
		}
		must(t, v.store.Refresh(ctx))
		if v.client.HExists(ctx, salesKey(), sale.ID).Val() || v.client.HExists(ctx, tagsKey(), saleTag(sale.ID)).Val() {
			t.Fatal("it is still there")
		}
		for name, s := range map[string]*Store{"slept": slept, "late": replica("late"), "same": v.store} {
			must(t, s.Refresh(ctx))
			if lost := s.Stats().Lost; lost != 0 || len(s.Views()) != pastKept {
				t.Fatalf("%s: %d losses, %d sales", name, lost, len(s.Views()))
			}
			s.answersFromTheArchive(t, sale, paid, open)
		}
		if _, ok := notes.kept[sale.ID]; ok {
			t.Errorf("its mark is kept: %v", notes.kept)
		}
	})
}

// answersFromTheArchive: a paid order and one that was open at the end.
func (s *Store) answersFromTheArchive(t *testing.T, sale Sale, paid, open Order) {
	t.Helper()
	ctx := t.Context()
	for id, want := range map[string]State{paid.ID: Confirmed, open.ID: Reserved} {
		if r, err := s.Find(ctx, id); err != nil || r.State != want {
			t.Errorf("%+v, %v, want %s", r, err, want)
		}
	}
	if r, err := s.Confirm(ctx, sale.ID, paid.ID, 1, "S"); err != nil || r.State != Confirmed {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Release(ctx, sale.ID, paid.ID, 1); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("%+v, %v", r, err)
	}
	if res, err := s.Reserve(ctx, paid); err != nil || res.Code != Known || res.Reservation.State != Confirmed {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := s.Reserve(ctx, order(sale, "new", 1)); err != nil || res.Code != NotRunning {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := s.Extend(ctx, sale.ID, open.ID, time.Second); !errors.Is(err, ErrUnknownSale) {
		t.Errorf("extend: %v", err)
	}
	if l, err := s.Level(ctx, sale.ID); err != nil || l.Confirmed != 1 || l.Free != sale.Total-1 {
		t.Errorf("%+v, %v", l, err)
	}
	if a, err := s.Audit(ctx, sale.ID); err != nil || !a.OK {
		t.Errorf("%+v, %v", a, err)
	}
	if v, err := s.Look(ctx, sale.ID); err != nil || !v.Gone || v.Desired != DesiredCancelled {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := s.SetDesired(ctx, sale.ID, DesiredCancelled); err != nil || !v.Gone {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := s.SetDesired(ctx, sale.ID, DesiredOn); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("resumed: %v", err)
	}
	must(t, s.Cleanup(ctx, sale.ID))
	must(t, second(s.Sweep(ctx, sale.ID)))
	if v, err := s.Preheat(ctx, sale); err != nil || !v.Gone {
		t.Errorf("the same version again: %+v, %v", v, err)
	}
	sale.Version++
	if _, err := s.Preheat(ctx, sale); !errors.Is(err, ErrSaleStarted) {
		t.Errorf("begun anew: %v", err)
	}
	if _, err := s.Find(ctx, NewOrderID(sale.ID, "nobody")); !errors.Is(err, ErrUnknownReservation) {
		t.Errorf("nobody's: %v", err)
	}
}
