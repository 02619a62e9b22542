package inventory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFence_ARestartThatForgetsInAStormSellsNothingTwice: Redis comes back on
// an older copy of its files while buyers ask, by one replica and by two.
func TestFence_ARestartThatForgetsInAStormSellsNothingTwice(t *testing.T) {
	for replicas := 1; replicas <= 2; replicas++ {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			const total = 400
			v := realEnv(t)
			sale := v.openSale(t, total, nil)
			stores := []*Store{v.store, replicaNamed(t, v.client, false, "other")}[:replicas]
			for _, s := range stores {
				must(t, s.Refresh(t.Context()))
				running(t, s)
			}
			won := stormOf16(t, sale, stores, func(wins *atomic.Int64) {
				eventually(t, "some are sold", func() bool { return wins.Load() > 20 })
				older := v.backup(t)
				eventually(t, "more are sold", func() bool { return wins.Load() > 100 })
				v.restart(t, older)
				eventually(t, "the sale is paused", func() bool {
					view, _ := v.store.View(sale.ID)
					return view.Desired == DesiredPaused || wins.Load() >= total
				})
			})
			if len(won) > total {
				t.Fatalf("%d wins were told for %d units", len(won), total)
			}
			eventually(t, "every win that was told is in the books", func() bool {
				for _, id := range won {
					if r, err := v.store.Find(t.Context(), id); err != nil || r.State != Reserved {
						return false
					}
				}
				return true
			})
			checkInvariant(t, v.store, sale.ID)
		})
	}
}

// stormOf16 lets 16 buyers at a time ask until `during` is over.
func stormOf16(t *testing.T, sale Sale, stores []*Store, during func(wins *atomic.Int64)) (won []string) {
	var mu sync.Mutex
	var wins, number atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		s := stores[i%len(stores)]
		wg.Go(func() {
			for !over.Load() {
				res, err := s.Reserve(t.Context(), order(sale, fmt.Sprint("u", number.Add(1)), 1))
				if err == nil && res.Granted {
					mu.Lock()
					won = append(won, res.Reservation.ID)
					mu.Unlock()
					wins.Add(1)
				}
			}
		})
	}
	during(&wins)
	over.Store(true)
	wg.Wait()
	return won
}
