package inventory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"weir/internal/redistest"
)

// evenSlots is the slot map of a fresh cluster: each master has one range.
func evenSlots(masters int) []int {
	byslot := make([]int, slots)
	for s := range byslot {
		byslot[s] = s * masters / slots
	}
	return byslot
}

// perMaster counts the tags by the master of their slot.
func perMaster(byslot []int, masters int, tags []string) []int {
	count := make([]int, masters)
	for _, tag := range tags {
		count[byslot[slotOf(tag)]]++
	}
	return count
}

// uneven: some master has more than one bucket more than another.
func uneven(count []int) bool {
	low, high := count[0], count[0]
	for _, n := range count {
		low, high = min(low, n), max(high, n)
	}
	return high-low > 1
}

func TestStock_H15_BucketsDifferByAtMostOneAMaster(t *testing.T) {
	for _, masters := range []int{1, 3, 5, 10} {
		byslot := evenSlots(masters)
		for n := masters; n <= maxBuckets; n++ {
			tags, err := spread(byslot, masters, n)
			must(t, err)
			if count := perMaster(byslot, masters, tags); len(tags) != n || uneven(count) {
				t.Fatalf("%d buckets on %d masters: %v", n, masters, count)
			}
		}
	}
}

func TestTags_AreEvenAndDifferentOverAnySlotMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		masters := rapid.SampledFrom([]int{1, 3, 5, 10}).Draw(rt, "masters")
		n := rapid.IntRange(1, maxBuckets).Draw(rt, "buckets")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		byslot := make([]int, slots)
		for s := range byslot {
			byslot[s] = random.IntN(masters+1) - 1 // -1: nobody has it
		}
		tags, err := spread(byslot, masters, n)
		if err != nil {
			rt.Fatal(err)
		}
		once := map[string]bool{}
		for _, tag := range tags {
			if once[tag] || byslot[slotOf(tag)] < 0 {
				rt.Fatalf("tag %s twice, or in a slot without a master", tag)
			}
			once[tag] = true
		}
		if count := perMaster(byslot, masters, tags); uneven(count) {
			rt.Fatalf("%d buckets on %d masters: %v", n, masters, count)
		}
	})
}

func TestTags_OfAMasterWithOneSlotAreFoundAndWithNoneRefused(t *testing.T) {
	byslot := make([]int, slots)
	byslot[12345] = 1
	tags, err := spread(byslot, 2, 8)
	must(t, err)
	if count := perMaster(byslot, 2, tags); count[0] != 4 || count[1] != 4 {
		t.Fatal(count)
	}
	byslot[12345] = 0
	if _, err := spread(byslot, 2, 8); err == nil {
		t.Fatal("a bucket for a master without slots")
	}
}

// TestTags_TheSourcesNamesLandOnFourOfTenMasters is the fault that the table
// replaces: trap 10.
func TestTags_TheSourcesNamesLandOnFourOfTenMasters(t *testing.T) {
	for _, c := range []struct{ masters, landed, most int }{{10, 4, 4}, {5, 4, 4}, {3, 3, 6}} {
		count := make([]int, c.masters)
		for i := 1; i <= 10; i++ {
			count[evenSlots(c.masters)[slotOf(fmt.Sprint("stock:maotai:bucket:", i))]]++
		}
		landed, most := 0, 0
		for _, n := range count {
			most = max(most, n)
			if n > 0 {
				landed++
			}
		}
		if landed != c.landed || most != c.most {
			t.Errorf("%d masters: on %d, at most %d: %v", c.masters, landed, most, count)
		}
	}
}

func TestTags_TheOwnersOfAnEvenlyDealtClusterComeInTheOrderOfTheirSlots(t *testing.T) {
	list := []redis.ClusterSlot{
		{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{ID: "a"}}},
		{Start: 4096, End: 8191, Nodes: []redis.ClusterNode{{Addr: "b:1"}, {ID: "replica"}}},
		{Start: 100, End: 200, Nodes: []redis.ClusterNode{{ID: "a"}}},
		{Start: 0, End: 99},
	}
	byslot, masters := owners(list)
	for slot, want := range map[int]int{0: -1, 99: -1, 100: 0, 200: 0, 201: -1, 4096: 1, 8191: 1, 8192: 0, 16383: 0} {
		if byslot[slot] != want {
			t.Errorf("slot %d: master %d, want %d", slot, byslot[slot], want)
		}
	}
	if masters != 2 {
		t.Errorf("%d masters", masters)
	}
}

func TestHome_IsThatOfTheUserEvenAndStable(t *testing.T) {
	const users, n = 20000, 10
	count := make([]int, n)
	for i := range users {
		user := fmt.Sprint("user-", i)
		at := home(NewOrderID("demo", user), n)
		count[at]++
		for _, id := range []string{NewOrderID("demo", user), NewOrderID("other", user), DeriveOrderID([]byte("k"), "demo", user, "1")} {
			if home(id, n) != at {
				t.Fatalf("%s lives in two buckets", user)
			}
		}
	}
	for at, got := range count {
		if got < users/n*9/10 || got > users/n*11/10 {
			t.Errorf("bucket %d is the home of %d of %d users", at, got, users)
		}
	}
}

func TestHome_WithoutAUserIsThatOfTheOrder(t *testing.T) {
	const orders, n = 10000, 10
	count := make([]int, n)
	for range orders {
		count[home(NewOrderID("demo", ""), n)]++
	}
	for at, got := range count {
		if got < orders/n*8/10 || got > orders/n*12/10 {
			t.Errorf("bucket %d is the home of %d of %d orders", at, got, orders)
		}
	}
	id := DeriveOrderID([]byte("k"), "demo", "", "once")
	if home(id, n) != home(DeriveOrderID([]byte("k"), "demo", "", "once"), n) {
		t.Error("the same order lives in two buckets")
	}
	// Fixed for ever: a replica of another version must send him there too.
	if got := home(orderID("demo", "ann", make([]byte, ownBytes)), 7); got != annsHome {
		t.Errorf("ann moved to bucket %d", got)
	}
}

// annsHome of seven, by SHA-256("ann")[:4] mod 7.
const annsHome = 0x49915e0d % 7

func TestTags_OfALiveClusterAgreeWithItAndStayWhenSlotsMove(t *testing.T) {
	cluster := redistest.Cluster(t, 3, 0)
	client := cluster.Client(t, nil)
	for i := range 200 {
		tag := fmt.Sprint(tagNamed(i*i), i)
		slot, err := client.ClusterKeySlot(t.Context(), "weir:{"+tag+"}:demo:1:head").Result()
		must(t, err)
		if int(slot) != slotOf(tag) {
			t.Fatalf("%s: the cluster says slot %d, we %d", tag, slot, slotOf(tag))
		}
	}
	s := replicaNamed(t, client, false, "a")
	now, err := client.Time(t.Context()).Result()
	must(t, err)
	for _, n := range []int{0, 1, 2, 3, 4, 7, 10, 64} {
		sale := planned()
		sale.ID, sale.Item, sale.Buckets, sale.Total = fmt.Sprint("s", n), fmt.Sprint("i", n), n, 1000
		sale.StartAt, sale.EndAt = now, now.Add(time.Hour)
		view, err := s.Preheat(t.Context(), sale)
		must(t, err)
		want := n
		if n == 0 {
			want = 3
		}
		byMaster := map[*redistest.Node]int{}
		for _, b := range view.Level.Buckets {
			node, slot := cluster.MasterOfKey("weir:{" + b.Tag + "}:x")
			if slot != slotOf(b.Tag) {
				t.Fatal(slot)
			}
			byMaster[node]++
		}
		count := make([]int, 0, 3)
		for _, m := range cluster.Masters() {
			count = append(count, byMaster[m])
		}
		if len(view.Level.Buckets) != want || uneven(count) {
			t.Errorf("%d buckets on 3 masters: %v", n, count)
		}
	}
	migrationMovesNobody(t, s, cluster)
}

// migrationMovesNobody: N and tags stand in the record; where a slot lies makes
// no difference to whose home it is.
func migrationMovesNobody(t *testing.T, s *Store, cluster *redistest.RedisCluster) {
	t.Helper()
	sale := planned()
	sale.ID, sale.Item = "s3", "i3"
	before, _ := s.View(sale.ID)
	o := order(sale, "ann", 1)
	won, err := s.Reserve(t.Context(), o)
	must(t, err)
	at := won.Reservation.Bucket
	from, slot := cluster.MasterOfKey(bucketsIn(s, sale.ID)[at].headKey())
	to := cluster.Masters()[0]
	if to == from {
		to = cluster.Masters()[1]
	}
	cluster.MigrateSlot(t, slot, from, to, nil)
	other := replicaNamed(t, cluster.Client(t, nil), false, "b") // it learns all anew
	must(t, other.Refresh(t.Context()))
	after, _ := other.View(sale.ID)
	for i, b := range after.Level.Buckets {
		if b.Tag != before.Level.Buckets[i].Tag {
			t.Fatalf("bucket %d changed its tag from %s to %s", i, before.Level.Buckets[i].Tag, b.Tag)
		}
	}
	again, err := other.Reserve(t.Context(), o)
	must(t, err)
	if again.Code != Known || again.Reservation.Bucket != at {
		t.Fatalf("%+v", again)
	}
	// A preheat that finds the sale changes nothing either, whatever the map says now.
	_, err = other.Preheat(t.Context(), before.Sale)
	must(t, err)
	checkBooks(t, other, sale.ID)
}
