package inventory

import (
	"fmt"
	"testing"
)

// lastUnitElsewhere opens a sale of five buckets with one unit left, in bucket
// 1: all others are sold and paid. The order's home, bucket 0, is dry.
func (v *env) lastUnitElsewhere(t *testing.T, round int) (Sale, Order) {
	sale := v.openSale(t, 50, func(s *Sale) {
		s.ID, s.Item = fmt.Sprint("s", round), fmt.Sprint("i", round)
		s.Buckets, s.MaxQuantity, s.BuyerLimit, s.Settle = 5, 50, 0, SettleAccept
	})
	v.stockOnlyIn(t, sale, 1)
	bulk := order(sale, homeUser(sale.ID, 5, 1, 7), 49)
	v.reserve(t, bulk, Taken)
	must(t, second(v.store.Confirm(t.Context(), sale.ID, bulk.ID, 1, "S")))
	return sale, order(sale, homeUser(sale.ID, 5, 0, 0), 1)
}

// TestStock_T07_AWinnersRetryIsNeverToldThatNothingIsThere: his home bucket is
// dry, so both copies wait for units of others. Whichever is granted pays at
// once: the other one meets a sale in which nothing is left.
func TestStock_T07_AWinnersRetryIsNeverToldThatNothingIsThere(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for round := range 20 {
			sale, o := v.lastUnitElsewhere(t, round)
			stores := []*Store{v.store, v.replicaOf(t, "second", nil)}
			must(t, stores[1].Refresh(t.Context()))
			codes := make([]Code, 2)
			parallel(t, 2, func(i int) error {
				res, err := stores[i].Reserve(t.Context(), o)
				codes[i] = res.Code
				if err == nil && res.Granted {
					_, err = stores[i].Confirm(t.Context(), sale.ID, o.ID, 1, "S")
				}
				return err
			})
			if min(codes[0], codes[1]) != Known || max(codes[0], codes[1]) != TakenLast {
				t.Fatalf("round %d: %v", round, codes)
			}
			v.level(t, sale.ID, 0, 0, 50)
			checkBooks(t, v.store, sale.ID)
		}
	})
}

func TestStock_T07_AHundredRepeatsWithADryHomeTakeOneUnit(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for round := range 5 {
			sale, o := v.lastUnitElsewhere(t, round)
			stores := []*Store{v.store, v.replicaOf(t, "second", nil), v.replicaOf(t, "third", nil)}
			got := ask(t, 100, func(i int) (*Store, Order) { return stores[i%3], o })
			if got.wins() != 1 || got.of(Known) != 99 {
				t.Fatalf("round %d: %v", round, got)
			}
			v.level(t, sale.ID, 0, 1, 49)
			checkBooks(t, v.store, sale.ID)
		}
	})
}
