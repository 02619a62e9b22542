package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// paid adds a paid order to the shop's.
func (d *desk) paid(id, order, user string, quantity int64) {
	d.orders.orders = append(d.orders.orders, ShopOrder{Reservation: id, Order: order, User: user, Quantity: quantity, State: OrderPaid})
}

func (d *desk) put(user string, state State, due bool) string {
	id := NewOrderID(d.books.sale.ID, user)
	d.books.ledger[id] = d.record(id, user, state, due)
	return id
}

func TestReconcile_OversellingIsNamedFirstWithDoubleAndForeignOrders(t *testing.T) {
	d := newDesk(3, SettleAccept, ExpiryAsk)
	ann, bob := d.put("ann", Confirmed, false), d.put("bob", Confirmed, false)
	d.paid(ann, "S-1", "ann", 1)
	d.paid(ann, "S-1", "ann", 1) // a list may name an order twice
	d.paid(bob, "S-2", "bob", 1)
	d.paid(bob, "S-3", "bob", 1)
	d.paid(NewOrderID("other", "eve"), "S-4", "eve", 1)
	d.paid("", "S-5", "", 2)
	d.orders.orders = append(d.orders.orders, ShopOrder{Reservation: bob, Order: "S-6", Quantity: 1, State: OrderCancelled})
	for range 2 { // all of them are for persons
		r := d.reconcile(t, true)
		if got := kinds(r); !slices.Equal(got[:1], []Kind{KindOversold}) || len(got) != 4 || r.Units != (Units{Total: 3, Ledger: 2, Shop: 6, Archive: r.Units.Archive}) {
			t.Fatalf("%v %+v", got, r.Units)
		}
		i := slices.IndexFunc(r.Differences, func(d Difference) bool { return d.Kind == KindDouble })
		if i < 0 || r.Differences[i].Reservation != bob || r.Differences[i].Order != "S-2, S-3" && r.Differences[i].Order != "S-3" {
			t.Fatalf("%+v", r.Differences)
		}
	}
}

func TestReconcile_OrdersThatWaitForAPaymentTooLateOversellNothing(t *testing.T) {
	d := newDesk(2, SettlePayment, ExpiryFree)
	d.paid(d.put("ann", Confirmed, false), "S-1", "ann", 1)
	placed := func(id, order, user string) {
		d.orders.orders = append(d.orders.orders, ShopOrder{Reservation: id, Order: order, User: user, Quantity: 1, State: OrderPlaced})
	}
	for _, user := range []string{"bob", "cid", "dan"} {
		placed(d.put(user, Expired, true), "S-"+user, user)
	}
	placed(d.put("eve", Reserved, false), "S-eve", "eve") // still to be accepted
	if got := kinds(d.reconcile(t, false)); !slices.Equal(got, []Kind{KindUnpaid, KindUnpaid, KindUnpaid, KindUnconfirmed}) {
		t.Fatalf("%v", got)
	}
	d.paid(d.put("fay", Confirmed, false), "S-fay", "fay", 1) // two paid, one held
	if got := kinds(d.reconcile(t, false)); !slices.Contains(got, KindOversold) {
		t.Fatalf("%v", got)
	}
}

func TestReconcile_OtherUsersAndQuantitiesAreForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		user     string
		quantity int64
		want     []Kind
	}{
		"same": {"ann", 1, nil}, "no user told": {"", 1, nil}, "user": {"bob", 1, []Kind{KindMismatch}}, "quantity": {"ann", 2, []Kind{KindMismatch}},
	} {
		d := newDesk(3, SettleAccept, ExpiryAsk)
		d.paid(d.put("ann", Confirmed, false), "S-1", c.user, c.quantity)
		if r := d.reconcile(t, true); !slices.Equal(kinds(r), c.want) {
			t.Errorf("%s: %+v", name, r.Differences)
		}
	}
	d := newDesk(9, SettleAccept, ExpiryAsk)
	d.paid(NewOrderID(d.books.sale.ID, "ann"), "S-1", "ann", 3) // more than an order may have
	if r := d.reconcile(t, true); !slices.Equal(kinds(r), []Kind{KindMismatch}) || len(d.books.ledger) > 0 {
		t.Errorf("%+v", r.Differences)
	}
}

func TestReconcile_ALostSaleWithoutAUnitLeftIsADeficit(t *testing.T) {
	d := newDesk(1, SettleAccept, ExpiryAsk)
	d.paid(d.put("ann", Confirmed, false), "S-1", "ann", 1)
	d.paid(NewOrderID(d.books.sale.ID, "bob"), "S-2", "bob", 1)
	r := d.reconcile(t, true)
	if !slices.Equal(kinds(r), []Kind{KindOversold, KindDeficit}) || r.Differences[1].Applied || !r.Differences[1].Person {
		t.Fatalf("%+v", r.Differences)
	}
}

func TestReconcile_AHoldThatExpiresMakesRoomForALostSale(t *testing.T) {
	d := newDesk(1, SettleAccept, ExpiryAsk)
	d.put("ann", Reserved, true)
	d.paid(NewOrderID(d.books.sale.ID, "bob"), "S-2", "bob", 1)
	if r := d.reconcile(t, true); len(kinds(r)) != 2 || d.books.held() != 1 {
		t.Fatalf("%+v", r.Differences)
	}
	if r := d.reconcile(t, true); len(r.Differences) > 0 {
		t.Fatalf("%+v", r.Differences)
	}
}

func TestReconcile_ARunningAttemptIsLeftToWhoRunsIt(t *testing.T) {
	d := newDesk(1, SettleAccept, ExpiryAsk)
	id := d.put("ann", Reserved, false)
	r := d.books.ledger[id]
	r.AttemptUntil = reconcileAt.Add(time.Second)
	d.books.ledger[id] = r
	d.paid(id, "S-1", "ann", 1)
	if r := d.reconcile(t, true); len(kinds(r)) > 0 {
		t.Fatalf("%+v", r.Differences)
	}
}

func TestReconcile_WhatMovedOnMeanwhileIsNoDifference(t *testing.T) {
	d := newDesk(2, SettleAccept, ExpiryAsk)
	d.orders.noLookup = true
	moved := d.put("ann", Reserved, true)
	d.paid(moved, "S-1", "ann", 1)
	fresh := NewOrderID(d.books.sale.ID, "bob")
	d.paid(fresh, "S-2", "bob", 1)
	q := d.reconciliation(true)
	q.Orders = afterList{d.orders, func() { // both are settled between the list and the second look
		for id, user := range map[string]string{moved: "ann", fresh: "bob"} {
			d.books.ledger[id] = d.record(id, user, Confirmed, false)
		}
	}}
	r, err := Reconcile(t.Context(), q)
	must(t, err)
	if len(kinds(r)) > 0 || d.books.acts > 0 {
		t.Fatalf("%+v", r.Differences)
	}
}

// afterList calls then when the list is read.
type afterList struct {
	Orders
	then func()
}

func (a afterList) Each(ctx context.Context, sale string, fn func(ShopOrder) error) error {
	defer a.then()
	return a.Orders.Each(ctx, sale, fn)
}

func TestReconcile_AListAndAnAnswerThatDifferAreUnclear(t *testing.T) {
	d := newDesk(2, SettleAccept, ExpiryAsk)
	id := d.put("ann", Reserved, true)
	q := d.reconciliation(true)
	q.Given = []ShopOrder{{Reservation: id, Order: "S-1", User: "ann", Quantity: 1, State: OrderPlaced}}
	r, err := Reconcile(t.Context(), q)
	must(t, err)
	if !slices.Equal(kinds(r), []Kind{KindUnclear}) || d.books.acts > 0 {
		t.Fatalf("%+v", r.Differences)
	}
	q.Orders = nil // now the list given by hand is all there is
	if r, err = Reconcile(t.Context(), q); err != nil || !slices.Equal(kinds(r), []Kind{KindUnconfirmed}) || !r.Differences[0].Applied {
		t.Fatalf("%+v %v", r.Differences, err)
	}
}

func TestReconcile_AGivenListThatTheShopContradictsIsUnclearRatherThanOverruled(t *testing.T) {
	for name, given := range map[string]func(id string) []ShopOrder{
		"silent about a sold order": func(string) []ShopOrder { return []ShopOrder{} },
		"calls a sold order cancelled": func(id string) []ShopOrder {
			return []ShopOrder{{Reservation: id, Order: "S-1", User: "ann", Quantity: 1, State: OrderCancelled}}
		},
	} {
		for _, mute := range []bool{false, true} {
			d := newDesk(2, SettleAccept, ExpiryAsk)
			id := d.put("ann", Confirmed, false)
			d.paid(id, "S-1", "ann", 1)
			d.orders.mute = mute
			q := d.reconciliation(true)
			q.Given = given(id)
			r, err := Reconcile(t.Context(), q)
			must(t, err)
			if got := kinds(r); !slices.Contains(got, KindUnclear) || d.books.acts > 0 {
				t.Errorf("%s: %v, %d acts", name, got, d.books.acts)
			}
			q.Given = nil // the shop's own list agrees with its answer
			if r, err = Reconcile(t.Context(), q); err != nil || slices.Contains(kinds(r), KindUnclear) {
				t.Errorf("%s: %+v %v", name, r.Differences, err)
			}
		}
	}
}

func TestReconcile_AShopThatCannotSayLeavesDueHoldsToAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		expiry Expiry
		want   []Kind
	}{"ask": {ExpiryAsk, []Kind{KindUnanswered}}, "free": {ExpiryFree, nil}} {
		d := newDesk(2, SettleAccept, c.expiry)
		d.put("ann", Reserved, true)
		d.put("bob", Confirmed, false)
		d.orders.noList, d.orders.askErr = true, errors.New("503")
		r := d.reconcile(t, true)
		if !slices.Equal(kinds(r), c.want) || r.Asked != r.Unanswered || r.Asked == 0 || r.Listed || d.books.acts > 0 {
			t.Errorf("%s: %+v", name, r)
		}
		q := d.reconciliation(true)
		q.Orders = nil
		if r, err := Reconcile(t.Context(), q); err != nil || !slices.Equal(kinds(r), c.want) || r.Asked != 0 {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}

func TestReconcile_AShopThatIsDownIsNotAskedForEver(t *testing.T) {
	d := newDesk(1000, SettleAccept, ExpiryAsk)
	for i := range 500 {
		d.put(fmt.Sprint("u", i), Reserved, true)
	}
	d.orders.noList, d.orders.askErr = true, errors.New("503")
	if d.reconcile(t, true); d.orders.asked > lookChunk+maxSilent {
		t.Fatalf("asked %d times", d.orders.asked)
	}
}

func TestReconcile_NothingIsAppliedWhenASourceBreaksOff(t *testing.T) {
	for _, broken := range []string{"list", "row", "archive", "ledger"} {
		d := newDesk(3, SettleAccept, ExpiryAsk)
		d.put("ann", Reserved, true)
		d.paid(NewOrderID(d.books.sale.ID, "bob"), "S-2", "bob", 1)
		boom := errors.New("boom")
		q := d.reconciliation(true)
		switch broken {
		case "list":
			d.orders.listErr = boom
		case "row":
			d.paid(NewOrderID(d.books.sale.ID, "cat"), "S-3", "cat", 0)
		case "archive":
			d.archive.err = boom
		case "ledger":
			q.Books = noLedger{d.books}
		}
		if _, err := Reconcile(t.Context(), q); err == nil || d.books.acts > 0 || d.archive.saves > 0 || !strings.Contains(err.Error(), d.books.sale.ID) {
			t.Errorf("%s: %v, %d acts", broken, err, d.books.acts)
		}
	}
}

type noLedger struct{ *fakeBooks }

func (noLedger) Ledger(context.Context, string, func(Reservation) error) error { return ErrUnavailable }

func TestReconcile_StepsThatFailOrLoseTheirAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		failed  bool // before it was done; else after
		times   int
		applied bool
	}{{"failed once", true, 1, true}, {"lost once", false, 1, true}, {"failed for good", true, 99, false}, {"lost for good", false, 99, false}} {
		for _, shop := range []string{OrderPaid, OrderCancelled, "", "lost"} {
			d := newDesk(3, SettleAccept, ExpiryAsk)
			id := NewOrderID(d.books.sale.ID, "ann")
			if shop != "lost" {
				id = d.put("ann", Reserved, true)
			}
			if d.paid(id, "S-1", "ann", 1); shop == "" {
				d.orders.orders = nil
			} else if shop == OrderCancelled {
				d.orders.orders[0].State = shop
			}
			left := c.times
			fault := func(string) error {
				if left--; left < 0 {
					return nil
				}
				return ErrOutcomeUnknown
			}
			if d.books.lose = fault; c.failed {
				d.books.fail, d.books.lose = fault, nil
			}
			r := d.reconcile(t, true)
			if got := r.Differences[0]; got.Applied != c.applied || (got.Error == "") != c.applied {
				t.Errorf("%s, %q: %+v", c.name, shop, got)
			}
			d.books.fail, d.books.lose = nil, nil
			d.reconcile(t, true)
			if r := d.reconcile(t, true); len(r.Differences) > 0 {
				t.Errorf("%s, %q: afterwards %+v", c.name, shop, r.Differences)
			}
		}
	}
}
