package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var reconcileAt = time.Unix(1_800_000_000, 0).UTC()

// desk is a sale with fakes around it.
type desk struct {
	books   *fakeBooks
	archive *fakeArchive
	orders  *fakeOrders
}

func newDesk(total int64, settle Settle, expiry Expiry) *desk {
	sale := planned()
	sale.Total, sale.Settle, sale.Expiry, sale.MaxQuantity = total, settle, expiry, 2
	return &desk{
		books:   &fakeBooks{sale: sale, at: reconcileAt, ledger: map[string]Reservation{}},
		archive: &fakeArchive{sale: sale, rows: map[string]Reservation{}},
		orders:  &fakeOrders{},
	}
}

// record is a reservation of one unit whose hold is over, or not.
func (d *desk) record(id, user string, state State, due bool) Reservation {
	until := reconcileAt.Add(time.Minute)
	if due {
		until = reconcileAt.Add(-time.Minute)
	}
	r := Reservation{
		ID: id, Sale: d.books.sale.ID, Item: d.books.sale.Item, User: user, Quantity: 1, State: state,
		ReservedAt: reconcileAt.Add(-time.Hour), ExpiresAt: until, Attempt: 1,
	}
	if state == Reserved {
		r.AttemptUntil = reconcileAt.Add(-2 * time.Minute)
	}
	if state == Cancelled {
		r.User, r.Quantity = "", 0
	}
	return r
}

func (d *desk) reconciliation(apply bool) Reconciliation {
	return Reconciliation{Sale: d.books.sale.ID, Books: d.books, Archive: d.archive, Orders: d.orders, Apply: apply}
}

func (d *desk) reconcile(t *testing.T, apply bool) Report {
	t.Helper()
	r, err := Reconcile(t.Context(), d.reconciliation(apply))
	must(t, err)
	for _, diff := range r.Differences {
		if diff.Remedy == "" || diff.Count < 1 || diff.Applied && (diff.Person || diff.Error != "") {
			t.Fatalf("a difference that says too little or too much: %+v", diff)
		}
	}
	return r
}

// kinds of the differences that are not the archive's lag.
func kinds(r Report) (all []Kind) {
	for _, d := range r.Differences {
		if d.Kind != KindArchiveBehind {
			all = append(all, d.Kind)
		}
	}
	return all
}

type reconcileCase struct {
	ledger, archive State
	shop            string
	due, later      bool   // later: settle payment
	want            Kind   // of the difference, "" = none
	then            State  // of the ledger after apply, "" = no record
	left            Kind   // of the second run, "" = none
	asked           string // want, then, left for a shop without a list, when they are others
}

func reconcileCases() map[string]reconcileCase {
	return map[string]reconcileCase{
		"nothing anywhere goes on":                      {ledger: Reserved, then: Reserved},
		"an expired hold without an order":              {ledger: Expired, due: true, then: Expired},
		"sold, and the shop knows":                      {ledger: Confirmed, archive: Confirmed, shop: OrderPaid, then: Confirmed},
		"sold, and the shop has nothing":                {ledger: Confirmed, archive: Confirmed, want: KindMissing, then: Confirmed, left: KindMissing},
		"sold, and the shop cancelled it":               {ledger: Confirmed, archive: Confirmed, shop: OrderCancelled, want: KindCancelled, then: Returned, asked: "missing_order|confirmed|missing_order"},
		"due, and the shop has nothing":                 {ledger: Reserved, due: true, want: KindUnfreed, then: Expired},
		"due, and the shop has it":                      {ledger: Reserved, due: true, shop: OrderPlaced, want: KindUnconfirmed, then: Confirmed},
		"not due, and the shop has it":                  {ledger: Reserved, shop: OrderPaid, want: KindUnconfirmed, then: Confirmed},
		"placed where payment settles":                  {ledger: Reserved, later: true, shop: OrderPlaced, want: KindUnconfirmed, then: Reserved},
		"paid where payment settles":                    {ledger: Reserved, later: true, shop: OrderPaid, want: KindUnconfirmed, then: Confirmed},
		"held, and the shop cancelled it":               {ledger: Reserved, shop: OrderCancelled, want: KindCancelled, then: Released, asked: "|reserved|"},
		"lost, and the shop sold it":                    {shop: OrderPlaced, want: KindLost, then: Confirmed, asked: "||"},
		"lost, and payment is to come":                  {shop: OrderPlaced, later: true, want: KindLost, then: Reserved, asked: "||"},
		"lost, and the archive sold it":                 {archive: Confirmed, shop: OrderPaid, due: true, want: KindLost, then: Confirmed},
		"lost, sold in the archive, nothing in shop":    {archive: Confirmed, want: KindMissing, left: KindMissing},
		"lost, and the archive still holds it":          {archive: Reserved, want: KindLostArchived, then: Reserved},
		"lost, and its hold is over":                    {archive: Reserved, due: true},
		"lost, given back before, and the shop has it":  {archive: Released, shop: OrderPlaced, want: KindOrphan, left: KindOrphan},
		"lost, refund due, and the shop has it":         {archive: RefundDue, shop: OrderPaid, want: KindRefund, left: KindRefund},
		"paid late":                                     {ledger: Expired, due: true, shop: OrderPaid, later: true, want: KindLatePayment, then: Confirmed},
		"unpaid beyond its hold":                        {ledger: Expired, due: true, shop: OrderPlaced, later: true, want: KindUnpaid, then: Expired, left: KindUnpaid},
		"given back, and the shop has it":               {ledger: Released, shop: OrderPlaced, want: KindOrphan, then: Released, left: KindOrphan},
		"returned, and the shop cancelled it":           {ledger: Returned, archive: Confirmed, shop: OrderCancelled, then: Returned},
		"cancelled before it came, and the shop has it": {ledger: Cancelled, shop: OrderPaid, want: KindOrphan, then: Cancelled, left: KindOrphan},
		"refund due, and the shop has it":               {ledger: RefundDue, due: true, shop: OrderPaid, want: KindRefund, then: RefundDue, left: KindRefund},
		"the ledger forgot a sale":                      {ledger: Reserved, archive: Confirmed, shop: OrderPaid, want: KindLedgerBehind, then: Confirmed},
		"the ledger forgot a release":                   {ledger: Reserved, archive: Released, want: KindLedgerBehind, then: Released},
		"the ledger forgot a return":                    {ledger: Reserved, archive: Returned, want: KindLedgerBehind, then: Returned},
		"the ledger forgot an expiry":                   {ledger: Reserved, archive: Expired, due: true, want: KindLedgerBehind, then: Expired},
		"the ledger forgot that it was returned":        {ledger: Confirmed, archive: Returned, shop: OrderCancelled, want: KindLedgerBehind, then: Returned},
		"released and sold":                             {ledger: Released, archive: Confirmed, due: true, want: KindContradiction, then: Released, left: KindContradiction},
		"sold and released":                             {ledger: Confirmed, archive: Released, shop: OrderPaid, want: KindContradiction, then: Confirmed, left: KindContradiction},
	}
}

// onDesk puts one reservation in place.
func (c reconcileCase) onDesk(mode string) (*desk, string) {
	settle := SettleAccept
	if c.later {
		settle = SettlePayment
	}
	d := newDesk(3, settle, ExpiryAsk)
	id := NewOrderID(d.books.sale.ID, "ann")
	if c.ledger != "" {
		d.books.ledger[id] = d.record(id, "ann", c.ledger, c.due)
	}
	if c.archive != "" {
		d.archive.rows[id] = d.record(id, "ann", c.archive, c.due)
	}
	if c.shop != "" {
		d.orders.orders = []ShopOrder{{Reservation: id, Order: "S-1", User: "ann", Quantity: 1, State: c.shop}}
	}
	d.orders.noList, d.orders.noLookup = mode == "asked", mode == "listed"
	return d, id
}

func (c reconcileCase) check(t *testing.T, mode string) {
	if mode == "asked" && c.asked != "" {
		f := strings.Split(c.asked, "|")
		c.want, c.then, c.left = Kind(f[0]), State(f[1]), Kind(f[2])
	}
	wants := func(k Kind) []Kind {
		if k == "" {
			return nil
		}
		return []Kind{k}
	}
	d, id := c.onDesk(mode)
	before := d.books.ledger[id]
	if r := d.reconcile(t, false); !slices.Equal(kinds(r), wants(c.want)) || d.books.ledger[id] != before || d.archive.saves > 0 {
		t.Fatalf("a look: %+v", r.Differences)
	}
	if r := d.reconcile(t, true); !slices.Equal(kinds(r), wants(c.want)) {
		t.Fatalf("applied: %+v", r.Differences)
	}
	if got := d.books.ledger[id]; got.State != c.then || c.then != "" && got.State != Cancelled && got.User != "ann" {
		t.Fatalf("the ledger says %+v", got)
	}
	r := d.reconcile(t, true)
	if !slices.Equal(kinds(r), wants(c.left)) || len(r.Differences) > 0 && !r.Differences[0].Person {
		t.Fatalf("a second time: %+v", r.Differences)
	}
}

func TestReconcile_EachDifferenceIsNamedAndRemediedOnce(t *testing.T) {
	for name, c := range reconcileCases() {
		for _, mode := range []string{"both", "listed", "asked"} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) { c.check(t, mode) })
		}
	}
}
