package inventory

import (
	"fmt"
	"testing"
	"time"
)

func TestSweep_WalksOverWhatIsSettledToWhatIsNot(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		const settled = 600 // more than two scripts look at
		sale := v.openSale(t, settled+2, func(s *Sale) { s.Expiry = ExpiryAsk })
		for i := range settled {
			o := v.won(t, sale, fmt.Sprint("user-", i))
			_, err := v.store.Confirm(t.Context(), sale.ID, o.ID, 1, "")
			must(t, err)
		}
		open := v.won(t, sale, "ann")
		asked := func(want ...string) {
			t.Helper()
			swept, err := v.store.Sweep(t.Context(), sale.ID)
			must(t, err)
			var got []string
			for _, r := range swept.Ask {
				got = append(got, r.ID)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("asked about %v, want %v", got, want)
			}
			checkInvariant(t, v.store, sale.ID)
		}
		asked()
		v.advance(t, sale.ID, attempt)
		asked(open.ID)
		asked()
		v.advance(t, sale.ID, 2*time.Second)
		asked(open.ID)
	})
}

// TestSweep_AskedOnceWhicheverListItLeft: due orders leave the holds before
// anybody was asked about them, beside one that comes back to their front.
func TestSweep_AskedOnceWhicheverListItLeft(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 4, func(s *Sale) { s.Expiry = ExpiryAsk })
		open := map[string]int{}
		var late Order
		for i := range 4 {
			late = v.won(t, sale, fmt.Sprint("user-", i))
			open[late.ID] = 0
		}
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, "bob", 1), NoneFreeNow) // all four leave the holds
		checkInvariant(t, v.store, sale.ID)
		_, err := v.store.Accept(ctx, sale.ID, late.ID, 1, "S-1") // and this one comes back
		must(t, err)
		checkInvariant(t, v.store, sale.ID)
		swept, err := v.store.Sweep(ctx, sale.ID)
		must(t, err)
		for _, r := range swept.Ask {
			open[r.ID]++
		}
		checkInvariant(t, v.store, sale.ID)
		if open[late.ID] != 0 || len(swept.Ask) != 3 || swept.Freed != 1 {
			t.Fatalf("freed %d, asked about %v", swept.Freed, open)
		}
		for id, n := range open {
			if id != late.ID && n != 1 {
				t.Errorf("%s: asked about %d times", id, n)
			}
		}
		again, err := v.store.Sweep(ctx, sale.ID)
		must(t, err)
		if len(again.Ask) != 0 {
			t.Errorf("asked again at once: %v", again.Ask)
		}
	})
}
