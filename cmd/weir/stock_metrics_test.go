package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"weir/inventory"
)

// figure reads one metric of a replica.
func (w *world) figure(name, labels string) float64 {
	w.t.Helper()
	body := string(w.op(http.MethodGet, "/metrics", nil).body)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name+labels) + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		w.t.Fatalf("no metric %s%s", name, labels)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func TestTheThreeFiguresOfAPreheatAreMetrics(t *testing.T) { // S4-4
	c := quiet(t, "memory")
	later := newSale()
	later.ID, later.Item, later.Total = "later", "2002", 100
	later.StartsAt = SaleTime{At: time.Now().Add(time.Hour)}
	later.EndsAt = SaleTime{After: 2 * time.Hour}
	c.Sales = append(c.Sales, later)
	w := boot(t, c)
	if lead := w.figure("weir_preheat_lead_seconds", `{sale="later"}`); lead < 3500 || lead > 3600 {
		t.Errorf("preheated %v s before the start", lead)
	}
	if r := w.figure("weir_preheat_readable_ratio", `{sale="demo"}`); r != 1 {
		t.Errorf("readable: %v", r)
	}
	alice := w.person("alice")
	alice.buy(alice.mustPass("demo"))
	if r := w.figure("weir_preheat_back_to_source_ratio", `{sale="demo"}`); r != 0 {
		t.Errorf("back to the source: %v", r)
	}
	// Lose the stock: the next order finds none, and the figures say so.
	keys, err := w.p.redis.stock.Keys(t.Context(), "weir:{w*}:demo:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	if err := w.p.redis.stock.Unlink(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	res, err := w.p.stock.Reserve(t.Context(), inventory.Order{
		ID: inventory.NewOrderID("demo", "bob"), Sale: "demo", Item: "1001", User: "bob", Quantity: 1, AttemptFor: time.Second,
	})
	if err != nil || res.Code != inventory.NotPreheated {
		t.Fatal(fmt.Sprint(res, err))
	}
	eventually(t, 5*time.Second, "the figures tell of the loss", func() bool {
		return w.figure("weir_preheat_readable_ratio", `{sale="demo"}`) == 0 && w.figure("weir_preheat_back_to_source_ratio", `{sale="demo"}`) == 0.5
	})
}
