package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"weir/limiter"
)

func TestTop_NamesWhoIsRefusedMostAmongAMillionOthers(t *testing.T) {
	clock := newClock()
	s := stack(t, clock.now, limiter.Layer{Name: "user", Rate: 1e-6, Burst: 1, Size: 1 << 16})
	for i := range 300_000 { // asks once, and is allowed or shares a bucket
		s.Take(limiter.Keys{fmt.Sprint("crowd-", i)})
		if i%3 == 0 {
			s.Take(limiter.Keys{"bot-1"})
		}
		if i%6 == 0 {
			s.Take(limiter.Keys{"bot-2"})
		}
	}
	top := s.Top("user", 2)
	if len(top) != 2 || top[0].Key != "bot-1" || top[1].Key != "bot-2" {
		t.Fatalf("%+v", top)
	}
	for i, least := range []uint64{90_000, 45_000} {
		if n := top[i].Refused; n < least || n-top[i].Doubt > 100_000 {
			t.Errorf("%+v", top[i])
		}
	}
	if all := s.Top("user", 1<<20); len(all) > 64*16 {
		t.Errorf("%d keys are counted", len(all))
	}
	if none := s.Top("nobody", 5); len(none) != 0 {
		t.Errorf("%+v", none)
	}
}

func TestTop_ForgetsWhoAsksNoMore(t *testing.T) {
	clock := newClock()
	s := stack(t, clock.now, limiter.Layer{Name: "user", Rate: 1e-6, Burst: 1})
	for range 9 { // 8 refusals
		s.Take(limiter.Keys{"ann"})
	}
	for _, want := range []uint64{8, 4, 2, 1, 0} {
		top := s.Top("user", 1)
		if want == 0 && len(top) == 0 {
			continue
		}
		if len(top) != 1 || top[0].Refused != want {
			t.Fatalf("%+v, want %d", top, want)
		}
		clock.add(time.Minute)
	}
	clock.add(365 * 24 * time.Hour)
	s.Take(limiter.Keys{"ann"})
	s.Take(limiter.Keys{"ann"})
	if top := s.Top("user", 9); len(top) != 1 || top[0].Refused != 1 {
		t.Fatalf("after a year: %+v", top)
	}
}

func TestTop_CountsWhatAShadowLayerWouldRefuse(t *testing.T) {
	s := stack(t, time.Now, limiter.Layer{Name: "user", Rate: 1e-6, Burst: 1, Shadow: true}, limiter.Layer{Name: "addr", Rate: 1e-6, Burst: 2})
	for range 5 {
		s.Take(limiter.Keys{"ann", "office"})
	}
	if top := s.Top("user", 1); len(top) != 1 || top[0] != (limiter.Offender{Key: "ann", Refused: 4}) {
		t.Errorf("%+v", top)
	}
	if top := s.Top("addr", 1); len(top) != 1 || top[0] != (limiter.Offender{Key: "office", Refused: 3}) {
		t.Errorf("%+v", top)
	}
}
