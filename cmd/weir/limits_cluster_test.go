package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestLimits_B73_TwoReplicasLetTheShopHaveItsRateOnce(t *testing.T) {
	socket := external(t)
	config := func() Config {
		c := onExternal(t, socket)
		c.Limits.Upstream = SharedLimit{Rate: 1, Per: time.Hour, Burst: 5, Concurrency: 64, Scope: "cluster", Size: 1, Mode: "enforce"}
		return c
	}
	replicas := []*world{boot(t, config()), boot(t, config())}
	outcomes := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			p := replicas[i%2].person(fmt.Sprint("user", i))
			pass, err := p.pass("demo")
			if err != nil {
				t.Error(err)
				return
			}
			r := p.buy(pass)
			mu.Lock()
			defer mu.Unlock()
			if r.status == http.StatusSeeOther {
				outcomes["sold"]++
			} else {
				outcomes[r.code()]++
			}
		})
	}
	all.Wait()
	// One that a replica was granted and nobody spent before it had died is given back
	// by that replica's next script, which is an hour away here.
	if sold := outcomes["sold"]; sold > 5 || sold < 1 || sold+outcomes["overloaded"] != 40 {
		t.Errorf("%v: the shop takes 5", outcomes)
	}
	if l := replicas[0].invariant("demo"); l.Confirmed != int64(outcomes["sold"]) {
		t.Errorf("%+v, %v", l, outcomes)
	}
	if v := replicas[1].figure("weir_limit_away", `{layer="upstream"}`); v != 0 {
		t.Errorf("Redis answers, and the replica thinks it is away: %v", v)
	}
}
