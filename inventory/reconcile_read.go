package inventory

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// reconcile is one run.
type reconcile struct {
	q       Reconciliation
	plan    Sale
	rules   rules
	report  Report
	known   map[key]facts
	rows    map[key]shopRow // those that looked wrong when they came
	asking  bool            // the shop may be asked about one reservation
	silent  int             // questions in a row that it left open
	refused int64           // records that the archive did not take
	bound   int64           // units of the shop's orders that need one
}

// shopRow is an order as the list has it, and the id of a second one that stands.
type shopRow struct {
	ShopOrder
	also string
}

// open reads the plan. A sale whose keys are gone is compared with the shop
// only: its ledger is the archive.
func (r *reconcile) open(ctx context.Context) error {
	level, err := r.q.Books.Level(ctx, r.q.Sale)
	if err != nil {
		return err
	}
	view, ok := r.q.Books.View(r.q.Sale)
	if !ok {
		return ErrUnknownSale
	}
	r.plan = view.Sale
	r.rules = rules{paysLater: r.plan.Settle == SettlePayment, asks: r.plan.Expiry == ExpiryAsk, gone: view.Gone}
	r.report.At, r.report.LedgerGone, r.report.Units.Total = level.At, view.Gone, level.Total
	r.asking = r.q.Orders != nil
	return nil
}

// change applies fn to what is known of one reservation. ErrTooMany at the bound.
func (r *reconcile) change(k key, fn func(*facts)) error {
	f, ok := r.known[k]
	if !ok && len(r.known) >= MaxReconciled {
		return fmt.Errorf("%w: more than %d", ErrTooMany, MaxReconciled)
	}
	fn(&f)
	r.known[k] = f
	return nil
}

// readLedger walks the ledger. It is read first: what it calls confirmed the
// shop's list, asked for later, must have.
func (r *reconcile) readLedger(ctx context.Context) error {
	return r.q.Books.Ledger(ctx, r.q.Sale, func(res Reservation) error {
		k, ok := keyOf(r.q.Sale, res.ID)
		if !ok {
			return fmt.Errorf("the ledger holds %q, which is no order id of the sale", res.ID)
		}
		return r.change(k, func(f *facts) {
			if f.ledger.state == noRecord { // a walk may give a record twice
				r.report.Checked.Ledger++
			}
			if f.ledger.state != isConfirmed {
				r.report.Units.Ledger += confirmedUnits(res)
			}
			f.ledger = sideOf(res)
			f.setTimes(res, r.report.At)
		})
	})
}

func (r *reconcile) readArchive(ctx context.Context) error {
	if !r.archives() {
		return nil
	}
	err := r.q.Archive.Each(ctx, r.q.Sale, func(res Reservation) error {
		k, ok := keyOf(r.q.Sale, res.ID)
		if !ok {
			return fmt.Errorf("the archive holds %q, which is no order id of the sale", res.ID)
		}
		r.report.Checked.Archive++
		r.report.Units.Archive += confirmedUnits(res)
		return r.change(k, func(f *facts) {
			if f.archive = sideOf(res); f.ledger.state == noRecord {
				f.setTimes(res, r.report.At)
			}
		})
	})
	if errors.Is(err, ErrUnknownSale) {
		return nil // not copied yet
	}
	return err
}

// archives: there is an archive beside the ledger.
func (r *reconcile) archives() bool { return r.q.Archive != nil && !r.rules.gone }

func confirmedUnits(res Reservation) int64 {
	if res.State == Confirmed {
		return res.Quantity
	}
	return 0
}

// readShop lists the shop's orders. A list that breaks off ends the run.
func (r *reconcile) readShop(ctx context.Context) error {
	each := func(fn func(ShopOrder) error) error {
		for _, o := range r.q.Given {
			if err := fn(o); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case r.q.Given != nil:
	case r.q.Orders == nil:
		return nil
	default:
		each = func(fn func(ShopOrder) error) error { return r.q.Orders.Each(ctx, r.q.Sale, fn) }
	}
	err := each(r.takeOrder)
	if errors.Is(err, ErrNoList) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the shop's orders: %w", err)
	}
	r.report.Listed = true
	r.hearSilence()
	if total := r.report.Units.Total; r.bound > total {
		r.add(Difference{Kind: KindOversold, Shop: fmt.Sprintf("%d of %d", r.bound, total), Quantity: r.bound - total})
	}
	return nil
}

// maxOrderName bounds the shop's order id that the ledger keeps, in bytes.
const maxOrderName = 128

func (r *reconcile) takeOrder(o ShopOrder) error {
	r.report.Checked.Shop++
	if r.report.Checked.Shop > 2*MaxReconciled {
		return fmt.Errorf("%w: the shop lists more than %d orders", ErrTooMany, 2*MaxReconciled)
	}
	no, ok := shopNumber(o.State)
	if !ok || o.Quantity < 1 || o.Quantity > maxUnits {
		return fmt.Errorf("order %q of reservation %q: state %q or quantity %d is none", o.Order, o.Reservation, o.State, o.Quantity)
	}
	o.Order = o.Order[:min(len(o.Order), maxOrderName)]
	k, ours := keyOf(r.q.Sale, o.Reservation)
	if !ours {
		r.foreign(o, no)
		return nil
	}
	return r.change(k, func(f *facts) { r.noteOrder(k, f, o, no) })
}

// noteOrder lays an order of the list over what is known. Of several the one
// that stands counts; two that stand are a double order.
func (r *reconcile) noteOrder(k key, f *facts, o ShopOrder, no shopNo) {
	repeated := f.seen && f.shopOrder == hashOf(o.Order)
	switch {
	case f.seen && !repeated && f.shop.stands() && no.stands():
		f.double = true
		r.addShopUnits(*f, o.Quantity, no)
		row, kept := r.rows[k]
		if !kept {
			row = shopRow{ShopOrder: ShopOrder{Reservation: o.Reservation, User: o.User, Quantity: o.Quantity, State: o.State}}
		}
		row.also = o.Order
		r.keepRow(k, row)
		return
	case f.seen && !repeated && f.shop.stands():
		return
	case no.stands() && (!repeated || !f.shop.stands()):
		r.addShopUnits(*f, o.Quantity, no)
	}
	f.seen = true
	f.setShop(o, r.plan)
	if !r.rules.judge(*f).isNothing() {
		r.keepRow(k, shopRow{ShopOrder: o})
	}
}

func (r *reconcile) keepRow(k key, row shopRow) {
	if _, there := r.rows[k]; there || len(r.rows) < MaxCases {
		r.rows[k] = row
	}
}

// addShopUnits stops at the largest number rather than turn negative. An order
// that waits for its payment and whose hold is over needs no unit.
func (r *reconcile) addShopUnits(f facts, n int64, no shopNo) {
	r.report.Units.Shop += min(n, math.MaxInt64-r.report.Units.Shop)
	if r.rules.sells(no) || f.ledger.state == isReserved || f.ledger.state == isConfirmed {
		r.bound += min(n, math.MaxInt64-r.bound)
	}
}

func (r *reconcile) foreign(o ShopOrder, no shopNo) {
	if !no.stands() {
		return
	}
	r.addShopUnits(facts{}, o.Quantity, no)
	r.add(Difference{Kind: KindForeign, Reservation: o.Reservation, Shop: o.State, User: o.User, Quantity: o.Quantity, Order: o.Order})
}

// hearSilence: what the whole list does not name has no order, if it could not
// have come since: it was sold already when the list was asked for, or its hold
// was over.
func (r *reconcile) hearSilence() {
	for k, f := range r.known {
		if !f.seen && (f.due || f.ledger.state == isConfirmed || f.archive.state == isConfirmed) {
			f.shop = shopNone
			r.known[k] = f
		}
	}
}
