package limiter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// perUser is the limit of one person over all replicas.
func perUser() Layer { return Layer{Rate: 2, Burst: 2, Quiet: 10 * time.Second} }

func TestTrap17_AUserSpreadOverThreeReplicasGetsHisRateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		const long = 20 * time.Second
		at, each := offered(g.replicas(t, 3, perUser()), long, 33, 33, 34)
		if n := len(at); n > 2*20+2+1 || n < 36 {
			t.Errorf("%d in 20 s at 2/s, %v", n, each)
		}
		if n := g.called(); n > 3*2*20 {
			t.Errorf("%d scripts", n)
		}
		// What the replicas let through without asking, at the start, is paid for afterwards.
		second := 0
		for _, x := range at {
			if x.Sub(at[0]) < time.Second {
				second++
			}
		}
		if second > 2+2+2 {
			t.Errorf("%d in the first second", second)
		}
	})
}

func TestAUserWhoKeepsToHisRateGetsAllOfIt(t *testing.T) {
	for name, pick := range map[string]func(i int) int{
		"on one replica": func(int) int { return 0 }, "in turn": func(i int) int { return i % 3 }, "by chance": func(int) int { return rand.IntN(3) },
	} {
		synctest.Test(t, func(t *testing.T) {
			all := newGrants().replicas(t, 3, perUser())
			got := 0
			for i := range 60 {
				if d := all[pick(i)].TakeWithin(t.Context(), Keys{"ann"}); d.OK {
					got++
				}
				time.Sleep(500*time.Millisecond + time.Duration(rand.IntN(2)-1)*time.Millisecond)
			}
			for _, s := range all {
				s.Close()
			}
			if got < 59 {
				t.Errorf("%s: %d of 60", name, got)
			}
		})
	}
}

func TestHonestUsersCostNoScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		all := g.replicas(t, 3, perUser())
		for range 20 {
			for i := range 100 {
				if d := all[i%3].TakeWithin(t.Context(), Keys{fmt.Sprint("user", i)}); !d.OK {
					t.Fatalf("%+v", d)
				}
			}
			time.Sleep(10 * time.Second)
		}
		if g.called() != 0 {
			t.Errorf("%d scripts for 2000 requests", g.called())
		}
		// Who presses twice is looked up once.
		for range 2 {
			all[0].TakeWithin(t.Context(), Keys{"user0"})
		}
		all[0].Close()
		if g.called() != 1 {
			t.Errorf("%d scripts", g.called())
		}
	})
}

func TestAQuietEventIsPaidForWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		all := g.replicas(t, 6, Layer{Rate: 1, Period: time.Hour, Burst: 3, Quiet: time.Second})
		got := 0
		for range 30 {
			for _, s := range all {
				if d := s.TakeWithin(t.Context(), Keys{"ann"}); d.OK {
					got++
				}
			}
		}
		for _, s := range all {
			s.Close()
		}
		if got > 6+2 { // one unheard of on each, and then the rest of three
			t.Errorf("%d of a burst of 3 on 6 replicas", got)
		}
		if d := g.paid["upstream/ann"].Sub(time.Now()); d < 5*time.Hour {
			t.Errorf("only %v are to be paid for", d)
		}
	})
}

func TestAQuietKeyIsNotForgottenBeforeItHasRested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perUser()
		l.Size = 4
		s := newGrants().replicas(t, 1, l)[0]
		s.TakeWithin(t.Context(), Keys{"ann"})
		time.Sleep(2 * time.Second) // her bucket is full again, her rest is not over
		for i := range 40 {
			s.TakeWithin(t.Context(), Keys{fmt.Sprint("scan", i)})
		}
		s.Close()
		if st := s.Stats()[0]; st.Evicted != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(10 * time.Second)
		s.TakeWithin(t.Context(), Keys{"bob"})
		if st := s.Stats()[0]; st.Evicted != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWithRedisAwayAUserGetsHisPartOnEachReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		g.fail(errors.New("away"), false)
		at, each := offered(g.replicas(t, 3, perUser()), 20*time.Second, 30, 30, 30)
		if n := len(at); n < 36 || n > 2*20+3+3 {
			t.Errorf("%d in 20 s at 2/s, %v", n, each)
		}
		if slices.Min(each) < 10 {
			t.Errorf("%v", each)
		}
	})
}
