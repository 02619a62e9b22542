package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// headFields are those of a bucket's head without which no script may work.
// The others are only shown.
func headFields() []string {
	return []string{
		"void", "run", "seq", "epoch", "clock", "free", "reserved", "confirmed", "lent_in", "lent_out", "expiry", "last_hold",
		"last_ext", "last_ask", "asked", "settle", "desired", "start", "end", "limit", "max", "hold", "item",
	}
}

// bucketSteps is everything that a script does to a bucket, on a sale of two
// buckets: ann's order is reserved, bob's is paid, due's hold is over.
func (v *env) bucketSteps(t *testing.T, sale Sale) map[string]func() error {
	ctx := t.Context()
	at := func(salt int) string { return homeUser(sale.ID, 2, 0, salt) }
	due := v.won(t, sale, at(1))
	v.advance(t, sale.ID, sale.Hold+time.Second)
	ann, bob := v.won(t, sale, at(2)), v.won(t, sale, at(3))
	must(t, second(v.store.Confirm(ctx, sale.ID, bob.ID, 1, "S-1")))
	c := v.store.views.Load().bySale[sale.ID].cells[0]
	run := func(sc *script, args ...any) error {
		e, err := v.store.entry(ctx, sale.ID)
		must(t, err)
		r, err := v.store.runOn(ctx, e, c, sc, args)
		if err == nil && r.code < 0 {
			err = fmt.Errorf("code %d: %w", r.code, ErrUnavailable)
		}
		return err
	}
	sc := v.store.scripts
	return map[string]func() error{
		"reserve": func() error {
			return run(&sc.reserve, "", 0, 0, shorten(NewOrderID(sale.ID, at(4))), at(4), "1 2000  ")
		},
		"sweep":        func() error { return run(&sc.sweep) },
		"take in":      func() error { return run(&sc.reserve, "loan", 3, 1) },
		"lend":         func() error { return run(&sc.lend, "other", 3, 1, "0") },
		"accept":       func() error { return run(&sc.accept, shorten(ann.ID), 1, "S-2") },
		"extend":       func() error { return run(&sc.extend, shorten(ann.ID), 1000) },
		"stuck":        func() error { return run(&sc.stuck, shorten(ann.ID)) },
		"expire":       func() error { return run(&sc.expire, shorten(due.ID)) },
		"late payment": func() error { return run(&sc.confirm, shorten(due.ID), 0, "S-3", 1) },
		"confirm":      func() error { return run(&sc.confirm, shorten(ann.ID), 1, "S-4", 0) },
		"release":      func() error { return run(&sc.release, shorten(ann.ID), 1) },
		"return":       func() error { return run(&sc.release, shorten(bob.ID), 0) },
		"tombstone":    func() error { return run(&sc.release, shorten(NewOrderID(sale.ID, at(5))), 0) },
		"restore":      func() error { return run(&sc.restore, "back", "c", at(6), "", 1, 1, 1, 1, 0, "S-5", 1) },
		"find":         func() error { return run(&sc.find, shorten(ann.ID)) },
	}
}

// H-7: Lua takes nothing back. A script that meets a key of another type stops
// before its first write, whichever key and script it is.
func TestStock_H07_AKeyOfAnotherTypeStopsEveryScriptBeforeItWrites(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 40, func(s *Sale) { s.Buckets = 2 })
		steps := v.bucketSteps(t, sale)
		b := v.buckets(sale.ID)[0]
		for _, key := range b.keys() {
			must(t, v.client.Rename(ctx, key, key+" aside").Err())
			must(t, v.client.Set(ctx, key, "x", 0).Err())
			for name, step := range steps {
				before := stockKeys(t, v.client)
				err := step()
				if definite := errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown); err == nil || v.real != nil && !definite { // miniredis wraps the reply in another
					t.Errorf("%s with another %s: %v", name, key, err)
				}
				if !maps.Equal(before, stockKeys(t, v.client)) {
					t.Fatalf("%s with another %s changed something", name, key)
				}
			}
			must(t, v.client.Rename(ctx, key+" aside", key).Err())
		}
		checkInvariant(t, v.store, sale.ID)
	})
}

// H-7: a script that meets a head without one of its fields, or with a word for
// a number, stops before its first write and says which field.
func TestStock_H07_ABrokenHeadStopsEveryScriptBeforeItWrites(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 40, func(s *Sale) { s.Buckets = 2 })
		steps := v.bucketSteps(t, sale)
		b := v.buckets(sale.ID)[0]
		for _, field := range headFields() {
			good := v.client.HGet(t.Context(), b.headKey(), field).Val()
			for _, value := range []string{"", "x", "1.5", "nan"} {
				if value == "" {
					must(t, v.client.HDel(t.Context(), b.headKey(), field).Err())
				} else {
					must(t, v.client.HSet(t.Context(), b.headKey(), field, value).Err())
				}
				if value != "" && slices.Contains([]string{"void", "run", "expiry", "desired", "item"}, field) {
					continue // a word where a word belongs
				}
				before := stockKeys(t, v.client)
				for name, step := range steps {
					if err := step(); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
						t.Fatalf("%s with %s = %q: %v", name, field, value, err)
					}
				}
				if !maps.Equal(before, stockKeys(t, v.client)) {
					t.Fatalf("with %s = %q something changed", field, value)
				}
			}
			must(t, v.client.HSet(t.Context(), b.headKey(), field, good).Err())
		}
		checkInvariant(t, v.store, sale.ID)
		for name, step := range steps { // the steps are real ones
			if err := step(); err != nil {
				t.Errorf("%s of a whole bucket: %v", name, err)
			}
		}
	})
}
