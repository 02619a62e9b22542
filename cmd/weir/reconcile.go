package main

import (
	"context"
	"strings"

	"weir/gateway/admin"
	"weir/inventory"
)

// reconcile compares ledger, archive and the shop's orders for the console.
func (p *program) reconcile(ctx context.Context, sale string, apply bool, orders []admin.ReconcileOrder) (admin.ReconcileReport, error) {
	r := inventory.Reconciliation{Sale: sale, Books: p.stock, Orders: p.gateway.ShopOrders(), Apply: apply}
	if p.archive != nil {
		r.Archive = p.archive
	}
	if orders != nil {
		r.Given = make([]inventory.ShopOrder, len(orders))
	}
	for i, o := range orders {
		r.Given[i] = inventory.ShopOrder{Reservation: o.Reservation, Order: o.Order, User: o.User, Quantity: o.Quantity, State: shopState(o.State)}
	}
	found, err := inventory.Reconcile(ctx, r)
	if err != nil {
		return admin.ReconcileReport{}, err
	}
	out := admin.ReconcileReport{
		Sale: found.Sale, Checked: admin.ReconcileChecked(found.Checked), Unanswered: found.Unanswered, More: found.More,
		Asked: found.Asked, Listed: found.Listed, LedgerGone: found.LedgerGone,
	}
	for _, d := range found.Differences {
		out.Differences = append(out.Differences, admin.ReconcileDifference{
			Reservation: d.Reservation, Kind: string(d.Kind), Ledger: d.Ledger, Archive: d.Archive, Shop: d.Shop,
			Count: d.Count, Person: d.Person, Passing: d.Kind == inventory.KindArchiveBehind,
			Remedy: d.Remedy, Applied: d.Applied, Error: d.Error,
		})
	}
	return out, nil
}

// shopState is a state in the words of a shop's order.
func shopState(s inventory.State) string {
	switch s {
	case inventory.Reserved:
		return inventory.OrderPlaced
	case inventory.Confirmed:
		return inventory.OrderPaid
	}
	return inventory.OrderCancelled
}

// checkPlan holds a plan from the API to what the file's sales are held to:
// the hold beside the shop's time-out, and who may free it.
func (p *program) checkPlan(s inventory.Sale) []admin.Fault {
	var k checker
	k.hold("", SaleConfig{Hold: s.Hold, Expiry: string(s.Expiry), Settle: string(s.Settle), Preheat: "by_hand"}, p.cfg.Upstream)
	faults := make([]admin.Fault, len(k.faults))
	for i, f := range k.faults {
		faults[i] = admin.Fault{Field: strings.TrimPrefix(f.Path, "."), Problem: f.Text}
	}
	return faults
}
