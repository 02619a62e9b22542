package sampleshop

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestARefusalThatFreesTheUnitIsForGood(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		shop, url := start(t, options(rdb))
		_, other := start(t, options(rdb))
		bought := buy(t, url, "r-bought").header.Get("Weir-Order")
		for _, status := range []int{402, 410, 422} {
			shop.Set(Switches{Refuse: status})
			name := "r-" + http.StatusText(status)
			if a := buy(t, url, name); a.status != status || a.header.Get("Weir-Order") != "" || !strings.Contains(a.body, "<h1>") {
				t.Errorf("%d: answered %d", status, a.status)
			}
			if a := buy(t, other, name); a.status != status {
				t.Errorf("%d: a healthy shop answers %d later", status, a.status)
			}
			if a := buy(t, url, "r-bought"); a.header.Get("Weir-Order") != bought {
				t.Errorf("%d: an order that exists was refused with %d", status, a.status)
			}
		}
		if orders, err := shop.Orders(t.Context()); err != nil || len(orders) != 1 {
			t.Errorf("orders: %v, %v", orders, err)
		}
	})
}

func TestAnUnclearRefusalMayBeFollowedByAnOrder(t *testing.T) {
	shop, url := memory(t, nil)
	for _, status := range []int{409, 429, 500, 503} {
		shop.Set(Switches{Refuse: status, RefuseEvery: 1})
		name := "r-" + http.StatusText(status)
		if a := buy(t, url, name); a.status != status {
			t.Errorf("%d: answered %d", status, a.status)
		}
		if a := buy(t, url, name); a.status != http.StatusSeeOther {
			t.Errorf("%d: the retry got %d", status, a.status)
		}
	}
}

func TestSettleIsSaidAndReleaseIsForGood(t *testing.T) {
	shop, url := memory(t, nil)
	shop.Set(Switches{Settle: "accept"})
	if a := buy(t, url, "r-1"); a.status != http.StatusSeeOther || a.header.Get("Weir-Settle") != "accept" {
		t.Errorf("accept: %d %v", a.status, a.header)
	}
	shop.Set(Switches{Settle: "release", Refuse: 409})
	if a := buy(t, url, "r-2"); a.status != http.StatusConflict || a.header.Get("Weir-Settle") != "release" {
		t.Errorf("release: %d %v", a.status, a.header)
	}
	shop.Set(Switches{})
	if a := buy(t, url, "r-2"); a.status != http.StatusConflict {
		t.Errorf("after release: %d", a.status)
	}
}

func TestEveryThirdReservationIsRefused(t *testing.T) {
	shop, url := memory(t, nil)
	shop.Set(Switches{Refuse: 402, RefuseEvery: 3})
	for i := 1; i <= 9; i++ {
		want := http.StatusSeeOther
		if i%3 == 0 {
			want = http.StatusPaymentRequired
		}
		for range 2 { // a repeat changes nothing, and counts for nothing
			if a := buy(t, url, key(i)); a.status != want {
				t.Errorf("%d: %d, want %d", i, a.status, want)
			}
		}
	}
}

func TestHangUps(t *testing.T) {
	for _, c := range []struct {
		how   string
		seen  int
		order bool
	}{{HangUpBefore, 0, false}, {HangUpAfter, 1, true}, {HangUpNoOrder, 1, false}} {
		t.Run(c.how, func(t *testing.T) {
			shop, url := memory(t, nil)
			shop.Set(Switches{HangUp: c.how, HangUpEvery: 2})
			if a := buy(t, url, "r-1"); a.status != http.StatusSeeOther {
				t.Errorf("the first of two: %d", a.status)
			}
			if a, err := send(forwarded(t, "POST", url+"/buy/1001", "x=1", buyHeaders("r-2"))); err == nil {
				t.Errorf("got an answer: %d", a.status)
			}
			if n := shop.Seen()["r-2"]; n != c.seen {
				t.Errorf("%d POSTs read", n)
			}
			order, _ := ask(t, url, "r-2")
			if (order != "") != c.order {
				t.Errorf("order %q", order)
			}
			if a := buy(t, url, "r-2"); a.status != http.StatusSeeOther || (c.order && a.header.Get("Weir-Order") != order) {
				t.Errorf("the retry: %d %s", a.status, a.header.Get("Weir-Order"))
			}
		})
	}
}

func TestASlowShopIsSlowForExactlyThatLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		pause(t.Context(), 3*time.Second)
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("paused %s", d)
		}
	})
}

func TestASlowShopFinishesAlthoughTheCallerHungUp(t *testing.T) {
	shop, url := memory(t, nil)
	shop.Set(Switches{Slow: 200 * time.Millisecond})
	c := client()
	c.Timeout = 20 * time.Millisecond
	if resp, err := c.Do(forwarded(t, "POST", url+"/buy/1001", "", buyHeaders("r-1"))); err == nil {
		_ = resp.Body.Close()
		t.Fatal("an answer within 20 ms")
	}
	eventually(t, func() bool {
		orders, err := shop.Orders(t.Context())
		return err == nil && len(orders) == 1
	})
}

func TestAStopDoesNotWaitForASlowAnswer(t *testing.T) {
	answered := make(chan struct{})
	t.Cleanup(func() { <-answered }) // runs after Serve's clean-up, which stops it
	shop, url := memory(t, nil)
	shop.Set(Switches{Slow: time.Hour})
	req := forwarded(t, "POST", url+"/buy/1001", "", buyHeaders("r-1"))
	go func() {
		defer close(answered)
		if a, err := send(req); err != nil || a.status != http.StatusSeeOther {
			t.Errorf("answered %d, %v", a.status, err)
		}
	}()
	eventually(t, func() bool { return shop.Seen()["r-1"] == 1 })
}

func TestSwitchesByHTTPOnlyWhenAllowed(t *testing.T) {
	post := func(url, body string) int {
		r, err := http.NewRequest("POST", url+"/_switches", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return mustSend(t, r).status
	}
	_, closed := memory(t, nil)
	if status := post(closed, `{"refuse":402}`); status != http.StatusNotFound {
		t.Errorf("not allowed: %d", status)
	}
	_, open := memory(t, func(o *Options) { o.AllowSwitches = true })
	if status := post(open, `{"refuse":402,"slow_ms":1}`); status != http.StatusNoContent {
		t.Errorf("allowed: %d", status)
	}
	if a := buy(t, open, "r-1"); a.status != http.StatusPaymentRequired {
		t.Errorf("thrown: %d", a.status)
	}
	if status := post(open, `{"nonsense":1}`); status != http.StatusBadRequest {
		t.Errorf("unknown switch: %d", status)
	}
}

func TestSeenIsBounded(t *testing.T) {
	s := newSeen()
	for i := range maxSeen + 10 {
		s.visit(key(i))
		s.read(key(i))
	}
	if n := len(s.reads()); n != maxSeen {
		t.Errorf("%d keys kept", n)
	}
	if s.total != maxSeen+10 {
		t.Errorf("%d counted", s.total)
	}
}
