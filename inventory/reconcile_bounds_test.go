package inventory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

func TestReconcile_ALaggingArchiveIsOneDifferenceAndIsCopiedInSlices(t *testing.T) {
	d := newDesk(1000, SettleAccept, ExpiryAsk)
	for i := range 2*ArchiveSlice + 1 {
		d.put(fmt.Sprint("u", i), Reserved, false)
	}
	r := d.reconcile(t, false)
	if len(r.Differences) != 1 || r.Differences[0].Kind != KindArchiveBehind || r.Differences[0].Count != 2*ArchiveSlice+1 || d.archive.saves > 0 {
		t.Fatalf("%+v", r.Differences)
	}
	if r = d.reconcile(t, true); !r.Differences[0].Applied || d.archive.saves != 3 || len(d.archive.rows) != 2*ArchiveSlice+1 {
		t.Fatalf("%+v, %d saves", r.Differences, d.archive.saves)
	}
	if r = d.reconcile(t, true); len(r.Differences) > 0 || d.archive.saves != 3 {
		t.Fatalf("%+v, %d saves", r.Differences, d.archive.saves)
	}
}

func TestReconcile_WhatItChangesIsArchivedInTheSameRun(t *testing.T) {
	d := newDesk(3, SettleAccept, ExpiryAsk)
	id := d.put("ann", Reserved, true)
	d.archive.rows[id] = d.books.ledger[id]
	d.paid(id, "S-1", "ann", 1)
	if d.reconcile(t, true); d.archive.rows[id].State != Confirmed || d.archive.rows[id].ShopOrder != "S-1" {
		t.Fatalf("%+v", d.archive.rows[id])
	}
}

func TestReconcile_ARefusalOfTheArchiveKeepsNoOtherOut(t *testing.T) {
	d := newDesk(4, SettleAccept, ExpiryFree)
	d.archive.sale.Total, d.books.sale.Total = 1, 1 // the ledger has sold one too many
	d.orders.noList, d.orders.noLookup = true, true
	for _, user := range []string{"ann", "bob"} {
		d.put(user, Confirmed, false)
	}
	d.put("cat", Reserved, false)
	r := d.reconcile(t, true)
	if got := kinds(r); !slices.Equal(got, []Kind{KindArchiveRefuses}) || len(d.archive.rows) != 2 {
		t.Fatalf("%+v, %d rows", r.Differences, len(d.archive.rows))
	}
}

func TestReconcile_AnArchiveThatFailsEndsTheRunAndSaysWhatWasDone(t *testing.T) {
	d := newDesk(3, SettleAccept, ExpiryAsk)
	d.put("ann", Reserved, true)
	q := d.reconciliation(true)
	q.Archive = deafArchive{d.archive}
	r, err := Reconcile(t.Context(), q)
	if !errors.Is(err, ErrUnavailable) || !slices.Equal(kinds(r), []Kind{KindUnfreed}) || !r.Differences[0].Applied {
		t.Fatalf("%v %+v", err, r.Differences)
	}
}

type deafArchive struct{ *fakeArchive }

func (deafArchive) Save(context.Context, Sale, []Reservation) error { return ErrUnavailable }

func TestReconcile_WithoutAnArchiveNothingIsSaidOfIt(t *testing.T) {
	d := newDesk(3, SettleAccept, ExpiryAsk)
	d.paid(d.put("ann", Reserved, true), "S-1", "ann", 1)
	q := d.reconciliation(true)
	q.Archive = nil
	r, err := Reconcile(t.Context(), q)
	if err != nil || !slices.Equal(kinds(r), []Kind{KindUnconfirmed}) || len(r.Differences) != 1 || r.Differences[0].Archive != "" {
		t.Fatalf("%v %+v", err, r.Differences)
	}
}

func TestReconcile_ASaleWhoseKeysAreGoneIsJudgedByItsArchive(t *testing.T) {
	d := newDesk(2, SettleAccept, ExpiryAsk)
	d.books.gone = true
	due, sold, lost := d.put("ann", Reserved, true), d.put("bob", Confirmed, true), NewOrderID(d.books.sale.ID, "cat")
	d.paid(sold, "S-1", "bob", 1)
	d.paid(lost, "S-2", "cat", 1)
	r := d.reconcile(t, true)
	if len(r.Differences) != 2 || !r.LedgerGone || r.Checked.Archive > 0 {
		t.Fatalf("%+v", r)
	}
	if d.books.ledger[due].State != Released || d.archive.rows[lost].State != Confirmed || d.archive.rows[lost].User != "cat" {
		t.Fatalf("%+v %+v", d.books.ledger, d.archive.rows)
	}
	d.archive.sale.Total, d.books.sale.Total = 0, 0
	d.archive.rows = map[string]Reservation{}
	if r := d.reconcile(t, true); !slices.Contains(kinds(r), KindDeficit) {
		t.Fatalf("%+v", r.Differences)
	}
}

func TestReconcile_MoreCasesThanItLooksIntoAreCounted(t *testing.T) {
	d := newDesk(MaxCases+500, SettleAccept, ExpiryAsk)
	d.orders.noLookup = true
	for i := range MaxCases + 7 {
		id := numberedID(d.books.sale.ID, i)
		d.books.ledger[id] = d.record(id, "", Confirmed, false)
		d.orders.orders = append(d.orders.orders, ShopOrder{Reservation: id, Order: "S-1", Quantity: 1, State: OrderCancelled})
	}
	r := d.reconcile(t, true)
	if r.More != 7 || len(kinds(r)) != MaxCases || d.books.held() != 7 {
		t.Fatalf("%d more, %d differences, %d held", r.More, len(r.Differences), d.books.held())
	}
	if r = d.reconcile(t, true); r.More != 0 || len(kinds(r)) != 7 || d.books.held() != 0 {
		t.Fatalf("%d more, %d differences, %d held", r.More, len(r.Differences), d.books.held())
	}
}

// numberedID is an order id that is cheap to make.
func numberedID(sale string, i int) string {
	var k key
	binary.BigEndian.PutUint64(k[4:], uint64(i)+1)
	return k.id(sale)
}

func TestReconcile_MoreReservationsThanTheBoundAreRefusedBeforeAnything(t *testing.T) {
	d := newDesk(10, SettleAccept, ExpiryAsk)
	q := d.reconciliation(true)
	q.Books = endlessLedger{d.books}
	if _, err := Reconcile(t.Context(), q); !errors.Is(err, ErrTooMany) || d.books.acts > 0 {
		t.Fatal(err)
	}
	if size := unsafe.Sizeof(key{}) + unsafe.Sizeof(facts{}); size > 64 {
		t.Errorf("%d bytes are kept of a reservation", size)
	}
}

// endlessLedger has one record more than the bound.
type endlessLedger struct{ *fakeBooks }

func (e endlessLedger) Ledger(_ context.Context, _ string, fn func(Reservation) error) error {
	r := e.sale
	for i := range MaxReconciled + 1 {
		if err := fn(Reservation{ID: numberedID(r.ID, i), Sale: r.ID, Quantity: 1, State: Confirmed}); err != nil {
			return err
		}
	}
	return nil
}

func TestReconcile_AKeyIsItsOrderIDAgain(t *testing.T) {
	for _, user := range []string{"ann", "", "bob"} {
		id := NewOrderID("demo", user)
		k, ok := keyOf("demo", id)
		if !ok || k.id("demo") != id || k.ofUser(user) != (user != "") || k.ofUser("eve") {
			t.Errorf("%s of %q: %v %s", id, user, ok, k.id("demo"))
		}
		if _, ok := keyOf("other", id); ok {
			t.Error("an id of another sale is taken")
		}
	}
}
