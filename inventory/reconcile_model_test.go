package inventory

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawDesk is a sale in any disorder that each source alone may be in.
func drawDesk(t *rapid.T) *desk {
	d := newDesk(rapid.Int64Range(0, 5).Draw(t, "total"), rapid.SampledFrom([]Settle{SettleAccept, SettlePayment}).Draw(t, "settle"),
		rapid.SampledFrom([]Expiry{ExpiryAsk, ExpiryFree}).Draw(t, "expiry"))
	d.orders.noList, d.orders.noLookup, d.orders.mute = rapid.Bool().Draw(t, "no list"), rapid.Bool().Draw(t, "no lookup"), rapid.Bool().Draw(t, "mute")
	states := stateNames()
	state := rapid.SampledFrom(states[:])
	for i := range rapid.IntRange(1, 8).Draw(t, "reservations") {
		user := fmt.Sprint("u", i)
		id := numberedID(d.books.sale.ID, i)
		due := rapid.Bool().Draw(t, "due")
		if r := d.record(id, user, state.Draw(t, "ledger"), due); r.State != "" {
			if d.books.ledger[id] = r; d.books.held() > d.books.sale.Total {
				delete(d.books.ledger, id)
			}
		}
		if r := d.record(id, user, state.Draw(t, "archive"), due); r.State != "" {
			if rapid.IntRange(0, 9).Draw(t, "other user") == 0 {
				r.User = "eve"
			}
			if d.archive.rows[id] = r; d.archive.sold() > d.archive.sale.Total {
				delete(d.archive.rows, id)
			}
		}
		for j := range rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "orders") {
			d.orders.orders = append(d.orders.orders, ShopOrder{
				Reservation: id, Order: fmt.Sprint("S-", i, "-", j), User: rapid.SampledFrom([]string{user, user, user, "", "eve"}).Draw(t, "user"),
				Quantity: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "quantity"),
				State:    rapid.SampledFrom([]string{OrderPlaced, OrderPaid, OrderCancelled}).Draw(t, "state"),
			})
		}
	}
	return d
}

func (a *fakeArchive) sold() (n int64) {
	for _, r := range a.rows {
		n += confirmedUnits(r)
	}
	return n
}

func TestReconcile_AfterApplyOnlyPersonsHaveSomethingLeftToDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawDesk(rt)
		before := slices.Collect(func(yield func(string) bool) {
			for id := range d.archive.rows {
				if !yield(id) {
					return
				}
			}
		})
		first, err := Reconcile(t.Context(), d.reconciliation(true))
		if err != nil {
			rt.Fatal(err)
		}
		if d.books.held() > d.books.sale.Total || d.archive.sold() > d.books.sale.Total {
			rt.Fatalf("%d held, %d archived of %d: %+v", d.books.held(), d.archive.sold(), d.books.sale.Total, first.Differences)
		}
		for _, id := range before {
			if _, ok := d.archive.rows[id]; !ok {
				rt.Fatalf("the archive lost %s", id)
			}
		}
		acts := d.books.acts
		second, err := Reconcile(t.Context(), d.reconciliation(true))
		if err != nil {
			rt.Fatal(err)
		}
		for _, diff := range second.Differences {
			if !diff.Person {
				rt.Fatalf("left over: %+v\nfirst: %+v", diff, first.Differences)
			}
		}
		if done := d.books.acts - acts; done > 0 {
			rt.Fatalf("the second run took %d more steps", done)
		}
	})
}

func TestReconcile_ALookTellsWhatApplyDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawDesk(rt)
		look, err := Reconcile(t.Context(), d.reconciliation(false))
		if err != nil || d.books.acts > 0 || d.archive.saves > 0 {
			rt.Fatalf("%v, %d acts, %d saves", err, d.books.acts, d.archive.saves)
		}
		done, err := Reconcile(t.Context(), d.reconciliation(true))
		if err != nil {
			rt.Fatal(err)
		}
		tell := func(r Report) (all []string) {
			for _, diff := range r.Differences {
				switch diff.Kind {
				case KindArchiveBehind, KindArchiveRefuses:
					continue // what was changed is copied too
				case KindDeficit:
					diff.Kind = KindLost
				case KindLostArchived:
					diff.Kind = KindLost
				}
				all = append(all, string(diff.Kind)+" "+diff.Reservation)
			}
			return all
		}
		if !slices.Equal(tell(look), tell(done)) {
			rt.Fatalf("look: %v\napply: %v", tell(look), tell(done))
		}
	})
}
