package inventory

import (
	"testing"

	"time"
)

func TestViews_OfSaleAndItem(t *testing.T) {
	v := memoryEnv(t)
	at := v.now
	span := func(id string, from, to time.Duration) {
		v.openSale(t, 10, func(s *Sale) { s.ID, s.StartAt, s.EndAt = id, at.Add(from), at.Add(to) })
	}
	span("first", time.Second, 10*time.Second)
	span("second", 10*time.Second, 20*time.Second)
	span("third", 30*time.Second, 40*time.Second)
	for after, want := range map[time.Duration]string{0: "first", 9: "first", 10: "second", 19: "second", 20: "third", 50: "third"} {
		v.mini.SetTime(at.Add(after * time.Second))
		must(t, v.store.Refresh(t.Context()))
		if got, ok := v.store.ViewOfItem("1001"); !ok || got.Sale.ID != want {
			t.Errorf("after %d s: %q, want %q", after, got.Sale.ID, want)
		}
	}
	if _, ok := v.store.ViewOfItem("1002"); ok {
		t.Error("a view of an unknown item")
	}
	if all := v.store.Views(); len(all) != 3 || all[0].Sale.ID != "first" {
		t.Errorf("%+v", all)
	}
	if n := testing.AllocsPerRun(100, func() { v.store.View("first"); v.store.ViewOfItem("1001") }); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}

func TestViews_OfAnotherReplicaFollow(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 1, nil)
		other := newStore(t, v.client, v.real == nil)
		must(t, other.Refresh(t.Context()))
		_, err := v.store.SetDesired(t.Context(), sale.ID, DesiredPaused)
		must(t, err)
		must(t, other.Refresh(t.Context()))
		if view, _ := other.View(sale.ID); view.Desired != DesiredPaused || view.StateAt(view.Level.At) != SalePaused {
			t.Fatalf("%+v", view)
		}
	})
}

func TestStock_H20_SoldOutIsClearedByAReturnedUnit(t *testing.T) { // T-21
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, s := t.Context(), v.store
		sale := v.openSale(t, 1, nil)
		soldOut := func(want bool) {
			t.Helper()
			if view, _ := s.View(sale.ID); view.SoldOut != want {
				t.Fatalf("sold out %v, want %v (%+v)", view.SoldOut, want, view.Level)
			}
		}
		o := v.won(t, sale, "ann")
		must(t, s.Refresh(ctx))
		soldOut(false)
		if view, _ := s.View(sale.ID); !view.HoldsOut {
			t.Fatal("holds are outstanding")
		}
		_, err := s.Confirm(ctx, sale.ID, o.ID, 1, "")
		must(t, err)
		v.reserve(t, order(sale, "bob", 1), NotEnough)
		soldOut(true)
		must(t, s.Refresh(ctx))
		soldOut(true)
		_, err = s.Release(ctx, sale.ID, o.ID, 0)
		must(t, err)
		must(t, s.Refresh(ctx))
		soldOut(false)
		v.reserve(t, order(sale, "bob", 1), TakenLast)
	})
}

func TestSoldOutMark_DiesByItselfWithinHalfASecond(t *testing.T) {
	l := &live{cells: make([]*cell, 1)}
	l.judge(Level{Seq: 7}, true, 0)
	if !l.soldOut(int64(soldOutFor) - 1) {
		t.Fatal("gone too early")
	}
	if l.soldOut(int64(soldOutFor)) || soldOutFor+coarseTick > 500*time.Millisecond {
		t.Fatal("it outlived half a second without being confirmed")
	}
}

func TestSoldOutMark_OfSeveralBucketsNeedsTwoEqualReadings(t *testing.T) {
	l := &live{cells: make([]*cell, 2)}
	l.judge(Level{Seq: 7}, false, 0)
	if l.soldOut(0) {
		t.Fatal("one reading of two buckets is no snapshot")
	}
	l.judge(Level{Seq: 7}, true, 0)
	if !l.soldOut(0) {
		t.Fatal("two equal ones are")
	}
}

func TestSoldOutMark_OfALaterAnswerOutlivesAnEarlierReading(t *testing.T) {
	l := &live{cells: make([]*cell, 1)}
	l.sold.Store(&mark{seq: 9})
	l.judge(Level{Seq: 8, Free: 1}, true, 0)
	if !l.soldOut(0) {
		t.Fatal("an older reading cleared it")
	}
	l.judge(Level{Seq: 10, Free: 1}, true, 0)
	if l.soldOut(0) {
		t.Fatal("a newer reading did not clear it")
	}
}

func TestRun_KeepsTheViewsWhileRedisIsAway(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 1, nil)
	v.mini.SetError("LOADING the dataset")
	if err := v.store.Refresh(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if view, ok := v.store.View(sale.ID); !ok || view.Level.Free != 1 {
		t.Fatalf("%+v %v", view, ok)
	}
}

func TestViews_TheTimeIsKnownWithoutAnySale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		must(t, v.store.Refresh(t.Context()))
		if d := v.redisNow(t).Sub(v.store.views.Load().now()).Abs(); d > time.Minute {
			t.Fatalf("off by %s", d)
		}
	})
}
