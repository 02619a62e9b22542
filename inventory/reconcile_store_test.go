package inventory

import (
	"slices"
	"testing"
	"time"
)

// shopOf is a shop that has the given orders.
func shopOf(orders ...ShopOrder) *fakeOrders { return &fakeOrders{orders: orders} }

func bought(id, user, state string) ShopOrder {
	return ShopOrder{Reservation: id, Order: "S-" + user, User: user, Quantity: 1, State: state}
}

// reconciled runs twice and checks the books after each.
func (v *env) reconciled(t *testing.T, q Reconciliation, want ...Kind) {
	t.Helper()
	q.Apply = true
	r, err := Reconcile(t.Context(), q)
	must(t, err)
	if got := kinds(r); !slices.Equal(sortedKinds(got), sortedKinds(want)) {
		t.Fatalf("%v, want %v: %+v", got, want, r.Differences)
	}
	checkInvariant(t, v.store, q.Sale)
	r, err = Reconcile(t.Context(), q)
	must(t, err)
	for _, d := range r.Differences {
		if !d.Person {
			t.Fatalf("left over: %+v", d)
		}
	}
	checkInvariant(t, v.store, q.Sale)
}

func sortedKinds(all []Kind) []Kind { return slices.Sorted(slices.Values(all)) }

func TestReconcileStore_EveryStepOnTheRealBooks(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 30, func(sa *Sale) {
			sa.Buckets, sa.Expiry, sa.Settle, sa.Hold = 3, ExpiryAsk, SettleAccept, time.Minute
		})
		id := map[string]string{}
		for _, user := range []string{"freed", "kept", "sold", "undone", "late", "back", "gone"} {
			id[user] = v.won(t, sale, user).ID
		}
		for _, user := range []string{"sold", "undone", "gone"} {
			_, err := s.Confirm(ctx, sale.ID, id[user], 1, "S-"+user)
			must(t, err)
		}
		_, err := s.Release(ctx, sale.ID, id["back"], 1)
		must(t, err)
		v.advance(t, sale.ID, 2*time.Minute)
		_, err = s.Expire(ctx, sale.ID, id["late"])
		must(t, err)
		id["lost"] = NewOrderID(sale.ID, "lost")
		archive := &fakeArchive{sale: sale, rows: map[string]Reservation{}}
		shop := shopOf(bought(id["kept"], "kept", OrderPlaced), bought(id["sold"], "sold", OrderPaid), bought(id["undone"], "undone", OrderCancelled),
			bought(id["late"], "late", OrderPaid), bought(id["back"], "back", OrderPlaced), bought(id["lost"], "lost", OrderPaid))
		q := Reconciliation{Sale: sale.ID, Books: s, Archive: archive, Orders: shop}
		v.reconciled(t, q, KindUnfreed, KindUnconfirmed, KindCancelled, KindLatePayment, KindOrphan, KindLost, KindMissing)
		for user, want := range map[string]State{
			"freed": Expired, "kept": Confirmed, "sold": Confirmed, "undone": Returned, "late": Confirmed, "back": Released, "gone": Confirmed, "lost": Confirmed,
		} {
			r, err := s.Find(ctx, id[user])
			must(t, err)
			if r.State != want || r.User != user || archive.rows[id[user]].State != want {
				t.Errorf("%s: %+v, archived %s", user, r, archive.rows[id[user]].State)
			}
		}
		v.level(t, sale.ID, 25, 0, 5)
	})
}

func TestReconcileStore_ALostSaleTakesTheUnitsOfOtherBucketsAndThenThereAreNone(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 30, func(sa *Sale) { sa.Buckets, sa.MaxQuantity, sa.BuyerLimit = 3, 2, 0 })
		var orders []ShopOrder
		for range 31 { // all of one user, so of one bucket
			orders = append(orders, bought(NewOrderID(sale.ID, "ann"), "ann", OrderPaid))
			orders[len(orders)-1].Order = orders[len(orders)-1].Reservation
		}
		r, err := Reconcile(t.Context(), Reconciliation{Sale: sale.ID, Books: v.store, Orders: shopOf(orders...), Apply: true})
		must(t, err)
		counts := map[Kind]int{}
		for _, d := range r.Differences {
			counts[d.Kind]++
		}
		if r.Differences[0].Kind != KindOversold || counts[KindLost] != 30 || counts[KindDeficit] != 1 || len(r.Differences) != 32 {
			t.Fatalf("%v", counts)
		}
		checkInvariant(t, v.store, sale.ID)
		v.level(t, sale.ID, 0, 0, 30)
	})
}

func TestReconcileStore_PaymentToComeIsRestoredAsAHold(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 2, func(sa *Sale) { sa.Settle, sa.Hold = SettlePayment, time.Minute })
		id := NewOrderID(sale.ID, "ann")
		q := Reconciliation{Sale: sale.ID, Books: v.store, Orders: shopOf(bought(id, "ann", OrderPlaced))}
		v.reconciled(t, q, KindLost)
		v.level(t, sale.ID, 1, 1, 0)
		r, err := v.store.Find(t.Context(), id)
		must(t, err)
		if left := r.ExpiresAt.Sub(v.redisNow(t)); left < 50*time.Second || left > 61*time.Second || !r.AttemptUntil.IsZero() {
			t.Fatalf("%v: %+v", left, r)
		}
		q.Orders = shopOf(bought(id, "ann", OrderPaid))
		v.reconciled(t, q, KindUnconfirmed)
		v.level(t, sale.ID, 1, 0, 1)
	})
}

func TestReconcileStore_AnUnknownSaleIsSaid(t *testing.T) {
	v := memoryEnv(t)
	if _, err := Reconcile(t.Context(), Reconciliation{Sale: "none", Books: v.store}); err == nil {
		t.Fatal("an unknown sale was compared")
	}
}
