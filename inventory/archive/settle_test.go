package archive

import (
	"errors"
	"testing"

	"weir/inventory"
)

func TestSettleTakesOneArrowOrTellsTheStoredState(t *testing.T) {
	refused := inventory.State("")
	table := map[inventory.State]map[inventory.State]inventory.State{ // stored → asked → becomes
		inventory.Reserved:  {inventory.Reserved: inventory.Reserved, inventory.Confirmed: inventory.Confirmed, inventory.Released: inventory.Released, inventory.Returned: refused},
		inventory.Expired:   {inventory.Reserved: refused, inventory.Confirmed: inventory.Confirmed, inventory.Released: refused, inventory.Returned: refused},
		inventory.Confirmed: {inventory.Reserved: inventory.Confirmed, inventory.Confirmed: inventory.Confirmed, inventory.Released: refused, inventory.Returned: inventory.Returned},
		inventory.Released:  {inventory.Reserved: refused, inventory.Confirmed: refused, inventory.Released: inventory.Released, inventory.Returned: refused},
		inventory.Returned:  {inventory.Reserved: refused, inventory.Confirmed: refused, inventory.Released: inventory.Returned, inventory.Returned: inventory.Returned},
		inventory.RefundDue: {inventory.Reserved: refused, inventory.Confirmed: inventory.RefundDue, inventory.Released: refused, inventory.Returned: refused},
		inventory.Cancelled: {inventory.Reserved: refused, inventory.Confirmed: refused, inventory.Released: inventory.Cancelled, inventory.Returned: refused},
	}
	each(t, func(t *testing.T, d *DB) {
		n := 0
		for stored, asks := range table {
			asks[inventory.Expired] = refused // nobody may ask for it
			for to, want := range asks {
				n++
				r := row(n, stored, 2)
				save(t, d, plan(1000), r)
				for range 2 { // asking twice gets the earlier answer
					got, err := d.Settle(t.Context(), r.ID, to, 0, "")
					if want == refused && (!errors.Is(err, inventory.ErrNotAllowed) || got.State != stored) {
						t.Fatalf("%s to %s: %s, %v, want it refused", stored, to, got.State, err)
					}
					if want != refused && (err != nil || got.State != want) {
						t.Fatalf("%s to %s: %s, %v, want %s", stored, to, got.State, err, want)
					}
					if kept := checkArchive(t, d, "sale-1")[r.ID]; kept != got {
						t.Fatalf("%s to %s: answered %+v, stored %+v", stored, to, got, kept)
					}
				}
			}
		}
	})
}

// TestStock_T18d_AnAttemptThatIsOverSettlesNothing: the table above is of attempt 0.
func TestStock_T18d_AnAttemptThatIsOverSettlesNothing(t *testing.T) {
	refused := map[inventory.State]map[inventory.State]error{ // stored → asked, by attempt 1 while 2 is current
		inventory.Reserved:  {inventory.Reserved: inventory.ErrAttemptOver, inventory.Confirmed: inventory.ErrAttemptOver, inventory.Released: inventory.ErrAttemptOver},
		inventory.Expired:   {inventory.Reserved: inventory.ErrNotAllowed, inventory.Confirmed: inventory.ErrAttemptOver, inventory.Released: inventory.ErrNotAllowed},
		inventory.Confirmed: {inventory.Reserved: nil, inventory.Confirmed: nil, inventory.Released: inventory.ErrNotAllowed},
		inventory.Released:  {inventory.Reserved: inventory.ErrNotAllowed, inventory.Confirmed: inventory.ErrNotAllowed, inventory.Released: nil},
		inventory.RefundDue: {inventory.Reserved: inventory.ErrNotAllowed, inventory.Confirmed: nil, inventory.Released: inventory.ErrNotAllowed},
	}
	each(t, func(t *testing.T, d *DB) {
		n := 0
		for stored, asks := range refused {
			for to, want := range asks {
				n++
				r := row(n, stored, 1)
				r.Attempt = 2
				save(t, d, plan(1000), r)
				kept := checkArchive(t, d, "sale-1")[r.ID]
				if got, err := d.Settle(t.Context(), r.ID, to, 1, "late"); !errors.Is(err, want) || got != kept {
					t.Fatalf("%s to %s: %+v, %v, want %v", stored, to, got, err, want)
				}
				if now := checkArchive(t, d, "sale-1")[r.ID]; now != kept {
					t.Fatalf("%s to %s: stored %+v", stored, to, now)
				}
				if got, err := d.Settle(t.Context(), r.ID, to, 2, ""); stored == inventory.Reserved && (err != nil || got.State != to) {
					t.Fatalf("%s to %s by the current attempt: %+v, %v", stored, to, got, err)
				}
			}
		}
	})
}

func TestALatePaymentIsSoldWhileUnitsAreLeftAndElseRefundDue(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		save(t, d, plan(3), row(1, inventory.Confirmed, 2), row(2, inventory.Expired, 2), row(3, inventory.Expired, 1), row(4, inventory.Expired, 1))
		settle := func(n int, to, want inventory.State) {
			t.Helper()
			got, err := d.Settle(t.Context(), row(n, "", 0).ID, to, 0, "paid")
			if err != nil || got.State != want {
				t.Fatalf("%d to %s: %s, %v, want %s", n, to, got.State, err, want)
			}
			checkArchive(t, d, "sale-1")
		}
		settle(2, inventory.Confirmed, inventory.RefundDue) // 2 of 3 are sold
		settle(3, inventory.Confirmed, inventory.Confirmed)
		settle(4, inventory.Confirmed, inventory.RefundDue)
		settle(1, inventory.Returned, inventory.Returned)
		settle(4, inventory.Confirmed, inventory.RefundDue) // once told, for ever
		wantSold(t, d, 1)
		if r := wantState(t, d, row(3, "", 0).ID, inventory.Confirmed); r.ShopOrder != "paid" {
			t.Fatalf("the shop's order is lost: %+v", r)
		}
	})
}

func TestALatePaymentKeepsTheBuyersLimit(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		sale := plan(10)
		sale.BuyerLimit = 2
		mine, late, fits, held := row(1, inventory.Confirmed, 1), row(2, inventory.Expired, 2), row(3, inventory.Expired, 1), row(4, inventory.Reserved, 2)
		mine.User, late.User, fits.User = "ann", "ann", "ann"
		save(t, d, sale, mine, late, fits, held)
		for r, want := range map[inventory.Reservation]inventory.State{late: inventory.RefundDue, fits: inventory.Confirmed, held: inventory.Confirmed} {
			got, err := d.Settle(t.Context(), r.ID, inventory.Confirmed, 0, "")
			if err != nil || got.State != want {
				t.Errorf("%s: %s, %v, want %s", r.ID, got.State, err, want)
			}
		}
		checkArchive(t, d, sale.ID)
	})
}

func TestAStaleLedgerDoesNotUndoWhatWasSettled(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		old := row(1, inventory.Expired, 1)
		save(t, d, plan(1), old)
		_, err := d.Settle(t.Context(), old.ID, inventory.Confirmed, 0, "order-1")
		must(t, err)
		save(t, d, plan(1), old)
		wantState(t, d, old.ID, inventory.Confirmed)
		wantSold(t, d, 1)
	})
}

func TestWhatIsUnknownCannotBeSettled(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		for _, to := range []inventory.State{inventory.Confirmed, inventory.Released, inventory.Returned} {
			for _, id := range []string{"nobody", "a\x00b", ""} {
				_, err := d.Settle(t.Context(), id, to, 0, "")
				wantError(t, err, inventory.ErrUnknownReservation)
			}
		}
	})
}
