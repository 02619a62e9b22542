package sampleshop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// putting sends a question about a sale's quota of item 1001.
func putting(t *testing.T, url, item, sale, body string) answer {
	t.Helper()
	return mustSend(t, forwarded(t, "PUT", url+"/quotas/"+item+"/"+sale, body, map[string]string{"Weir-Item": item, "Weir-Sale": sale}))
}

// quotaIs compares what GET says of a sale's quota.
func quotaIs(t *testing.T, url string, want Quota) {
	t.Helper()
	at := url + "/quotas/" + want.Item + "/" + want.Sale
	a := mustSend(t, forwarded(t, "GET", at, "", map[string]string{"Weir-Item": want.Item, "Weir-Sale": want.Sale}))
	var got Quota
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK || got != want {
		t.Fatalf("%d %s%v, want %+v", a.status, a.body, err, want)
	}
}

func TestUnitsAreSetAsideOnceAndComeBackOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		_, url := start(t, options(rdb))
		want := Quota{Item: "1001", Sale: "demo", Stock: ProductStock, State: "none"}
		quotaIs(t, url, want)
		for i, c := range []struct {
			body         string
			status       int
			state        string
			units, back  int64
			taken, steps int64
		}{
			{`{"unsold":5,"sold":0,"step":1}`, 204, "thawed", 0, 0, 0, 1}, // nothing is frozen: no error
			{`{"units":12,"step":3}`, 204, "frozen", 12, 0, 12, 3},
			{`{"units":12,"step":3}`, 204, "frozen", 12, 0, 12, 3},
			{`{"units":50,"step":2}`, 409, "frozen", 12, 0, 12, 3},
			{`{"units":30,"step":4}`, 204, "frozen", 30, 0, 30, 4},
			{`{"units":1000001,"step":5}`, 422, "frozen", 30, 0, 30, 4},
			{`{"units":1000000,"step":6}`, 204, "frozen", 1000000, 0, 1000000, 6},
			{`{"units":6,"step":1700000000000}`, 204, "frozen", 6, 0, 6, 1700000000000},
			{`{"unsold":4,"sold":2,"step":1700000000001}`, 204, "thawed", 6, 4, 2, 1700000000001},
			{`{"unsold":4,"sold":2,"step":1700000000001}`, 204, "thawed", 6, 4, 2, 1700000000001},
			{`{"units":6,"step":1700000000000}`, 409, "thawed", 6, 4, 2, 1700000000001}, // arrives after its thaw
			{`{"unsold":9,"sold":0,"step":1700000000002}`, 204, "thawed", 6, 6, 0, 1700000000002},
			{`{"unsold":5,"sold":1,"step":1700000000003}`, 204, "thawed", 6, 5, 1, 1700000000003},
			{`{"units":10,"step":1700000000004}`, 204, "frozen", 10, 0, 11, 1700000000004},
		} {
			if a := putting(t, url, "1001", "demo", c.body); a.status != c.status {
				t.Fatalf("%d: %s: %d %s", i, c.body, a.status, a.body)
			}
			want = Quota{"1001", "demo", ProductStock - c.taken, c.state, c.units, c.back, c.steps}
			quotaIs(t, url, want)
		}
		if a := putting(t, url, "1001", "other", `{"units":999990,"step":1}`); a.status != 422 || !strings.HasPrefix(a.body, "only 999989 of item 1001 are left") {
			t.Errorf("another sale: %d %s", a.status, a.body)
		}
		quotaIs(t, url, want)
	})
}

func TestUnitsThatWereSoldElsewhereAreNotTakenBackByALateSale(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		_, url := start(t, options(rdb))
		for _, c := range []struct{ sale, body string }{
			{"demo", `{"units":10,"step":1}`}, {"demo", `{"unsold":10,"sold":0,"step":2}`}, {"next", `{"units":1000000,"step":1}`},
		} {
			if a := putting(t, url, "1001", c.sale, c.body); a.status != 204 {
				t.Fatalf("%+v: %d %s", c, a.status, a.body)
			}
		}
		if a := putting(t, url, "1001", "demo", `{"unsold":9,"sold":1,"step":3}`); a.status != 422 || !strings.HasPrefix(a.body, "only 0 of item 1001 are left") {
			t.Fatalf("%d %s", a.status, a.body)
		}
		quotaIs(t, url, Quota{"1001", "demo", 0, "thawed", 10, 10, 2})
	})
}

func TestASaleHasUnitsOfOneItemSetAside(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		_, url := start(t, options(rdb))
		for i, c := range []struct {
			item, body string
			status     int
		}{
			{"1001", `{"units":10,"step":1}`, 204},
			{"1002", `{"units":10,"step":2}`, 409},
			{"1002", `{"unsold":10,"sold":0,"step":3}`, 409},
			{"1001", `{"unsold":9,"sold":1,"step":4}`, 204},
			{"1002", `{"unsold":10,"sold":0,"step":5}`, 204}, // of this one nothing is frozen
			{"1002", `{"units":7,"step":6}`, 204},
		} {
			if a := putting(t, url, c.item, "demo", c.body); a.status != c.status {
				t.Fatalf("%d: %s: %d %s", i, c.body, a.status, a.body)
			}
		}
		quotaIs(t, url, Quota{Item: "1001", Sale: "demo", Stock: ProductStock - 1, State: "none"})
		quotaIs(t, url, Quota{"1002", "demo", ProductStock - 7, "frozen", 7, 0, 6})
	})
}

func TestOnlyWeirSetsUnitsAside(t *testing.T) {
	_, url := memory(t, nil)
	good := `{"units":1,"step":1}`
	for name, c := range map[string]struct {
		path, item, sale, body string
		unsigned               bool
		want                   int
	}{
		"unsigned":       {"/quotas/1001/demo", "1001", "demo", good, true, 401},
		"another item":   {"/quotas/1001/demo", "1002", "demo", good, false, 400},
		"another sale":   {"/quotas/1001/demo", "1001", "other", good, false, 400},
		"no sale's id":   {"/quotas/1001/-", "1001", "-", good, false, 400},
		"unknown item":   {"/quotas/9/demo", "9", "demo", good, false, 404},
		"both":           {"/quotas/1001/demo", "1001", "demo", `{"units":1,"unsold":1,"sold":1,"step":1}`, false, 400},
		"half a thaw":    {"/quotas/1001/demo", "1001", "demo", `{"unsold":1,"step":1}`, false, 400},
		"no step":        {"/quotas/1001/demo", "1001", "demo", `{"units":1}`, false, 400},
		"negative":       {"/quotas/1001/demo", "1001", "demo", `{"units":-1,"step":1}`, false, 400},
		"a fraction":     {"/quotas/1001/demo", "1001", "demo", `{"units":1.5,"step":1}`, false, 400},
		"too much":       {"/quotas/1001/demo", "1001", "demo", `{"units":9007199254740993,"step":1}`, false, 400},
		"unknown member": {"/quotas/1001/demo", "1001", "demo", `{"units":1,"step":1,"force":true}`, false, 400},
		"no JSON":        {"/quotas/1001/demo", "1001", "demo", `units=1`, false, 400},
	} {
		r := forwarded(t, "PUT", url+c.path, c.body, map[string]string{"Weir-Item": c.item, "Weir-Sale": c.sale})
		if c.unsigned {
			r.Header.Del("Signature")
		}
		if a := mustSend(t, r); a.status != c.want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	quotaIs(t, url, Quota{Item: "1001", Sale: "demo", Stock: ProductStock, State: "none"})
	r := forwarded(t, "GET", url+"/quotas/1001/demo", "", map[string]string{"Weir-Item": "1001", "Weir-Sale": "demo"})
	r.Header.Del("Signature")
	if a := mustSend(t, r); a.status != 401 {
		t.Errorf("read unsigned: %d", a.status)
	}
}

func TestTheSalesThatAreRememberedAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		_, url := start(t, options(rdb))
		many := make(map[string]any, maxQuotas)
		for i := range maxQuotas {
			many[fmt.Sprint("s", i)] = "frozen 1 0 5 1001"
		}
		if err := rdb.HSet(t.Context(), quotasKey(), many).Err(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			sale, body string
			status     int
		}{
			{"new", `{"units":1,"step":1}`, 422}, {"new", `{"unsold":1,"sold":0,"step":2}`, 204},
			{"s7", `{"units":2,"step":6}`, 204}, {"s7", `{"unsold":2,"sold":0,"step":7}`, 204},
		} {
			if a := putting(t, url, "1001", c.sale, c.body); a.status != c.status {
				t.Errorf("%+v: %d %s", c, a.status, a.body)
			}
		}
		if n := rdb.HLen(t.Context(), quotasKey()).Val(); n != maxQuotas {
			t.Errorf("%d are remembered", n)
		}
	})
}

func TestManyWhoAskAtOnceNeverTakeMoreThanThereIs(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		shop, _ := start(t, options(rdb))
		var all sync.WaitGroup
		var mu sync.Mutex
		done := 0
		for i := range 20 {
			all.Go(func() {
				units := int64(ProductStock / 10)
				refusal, _, err := shop.setQuota(t.Context(), "1001", fmt.Sprint("s", i), quotaAsk{Units: &units, Step: 1})
				if err != nil {
					t.Error(err)
				}
				if mu.Lock(); refusal == "" {
					done++
				}
				mu.Unlock()
			})
		}
		all.Wait()
		if q, err := shop.Quota(t.Context(), "1001", "s0"); err != nil || done != 10 || q.Stock != 0 {
			t.Errorf("%d sales, %+v %v", done, q, err)
		}
	})
}

func TestAShopWithoutItsRedisDoesNotSayNo(t *testing.T) {
	rdb := realRedis(t)
	shop, url := start(t, options(rdb))
	if err := rdb.Set(t.Context(), quotasKey(), "no hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if a := putting(t, url, "1001", "demo", `{"units":1,"step":1}`); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if q, err := shop.Quota(t.Context(), "1001", "demo"); err == nil {
		t.Errorf("%+v", q)
	}
	if n, err := rdb.Exists(t.Context(), stockKey()).Result(); err != nil || n != 0 {
		t.Errorf("the stock was touched: %d %v", n, err)
	}
}
