package inventory

import (
	"fmt"
	"testing"
	"time"
)

func TestLease_IsHadByOneAtATimeAndGivenBack(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		other := replicaNamed(t, v.client, v.real == nil, "other")
		ask := func(s *Store, want bool) {
			t.Helper()
			got, err := s.Lease(t.Context(), "job", time.Minute)
			must(t, err)
			if got != want {
				t.Fatalf("%s: %v, want %v", s.replica, got, want)
			}
		}
		ask(v.store, true)
		ask(v.store, true)
		ask(other, false)
		must(t, other.EndLease(t.Context(), "job")) // not his to give back
		ask(other, false)
		must(t, v.store.EndLease(t.Context(), "job"))
		ask(other, true)
	})
}

func TestLease_OfTheDeadIsFreeAndItsEntryGoes(t *testing.T) { // H-22
	eachRedis(t, func(t *testing.T, v *env) {
		now := v.redisNow(t)
		for job, till := range map[string]time.Time{
			"over":               now.Add(-time.Second),
			"before a step back": now.Add(30 * time.Minute),
			"nobody asks again":  now.Add(2 * time.Hour),
			"alive":              now.Add(20 * time.Second),
		} {
			must(t, v.client.HSet(t.Context(), leasesKey(), job, fmt.Sprintf("%d dead", till.UnixMilli())).Err())
		}
		for job, want := range map[string]bool{"alive": false, "before a step back": true, "another": true} {
			if got, err := v.store.Lease(t.Context(), job, time.Minute); err != nil || got != want {
				t.Errorf("%s: %v, %v, want %v", job, got, err, want)
			}
		}
		left, err := v.client.HKeys(t.Context(), leasesKey()).Result()
		must(t, err)
		if len(left) != 3 {
			t.Errorf("leases: %q", left)
		}
	})
}

func TestPreheat_ALeaseFromBeforeTheClockSteppedBackDelaysNobody(t *testing.T) { // H-10
	eachRedis(t, func(t *testing.T, v *env) {
		must(t, v.client.HSet(t.Context(), leaseKey(), "sale", "gone", "gen", "1", "last", "1", "revoked", "0", "tags", "",
			"until", fmt.Sprint(v.redisNow(t).Add(time.Hour).UnixMilli())).Err())
		sale := v.openSale(t, 3, nil)
		v.reserve(t, order(sale, "ann", 1), Taken)
		v.level(t, sale.ID, 2, 1, 0)
	})
}
