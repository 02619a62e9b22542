package sampleshop

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// listOf turns the pages of a sale's list.
func listOf(t *testing.T, url, sale string) (all []listedOrder, pages int) {
	t.Helper()
	for path := "/orders?sale=" + sale; path != ""; pages++ {
		a := mustSend(t, forwarded(t, "GET", url+path, "", map[string]string{"Weir-Sale": sale}))
		var page []listedOrder
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %q: %v", a.status, a.body, err)
		}
		all = append(all, page...)
		next, _, _ := strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
		path = next
	}
	return all, pages
}

func TestTheListOfASaleHasEachOrderOnceWithItsState(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		shop, url := start(t, options(rdb))
		if all, pages := listOf(t, url, "demo"); len(all) != 0 || pages != 1 {
			t.Fatalf("an empty shop: %d orders on %d pages", len(all), pages)
		}
		for i := range listPage + 1 {
			req := request{order: Order{ID: randomID(), Reservation: key(i), Item: "1001", Sale: "demo", Quantity: 2, User: "u-1"}}
			for range 2 { // a repeat is no second order
				if _, err := shop.place(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
		}
		all, pages := listOf(t, url, "demo")
		if len(all) != listPage+1 || pages != 2 {
			t.Fatalf("%d orders on %d pages", len(all), pages)
		}
		for i, o := range all {
			if o.Reservation != key(i) || o.Order == "" || o.User != "u-1" || o.Quantity != 2 || o.State != Placed {
				t.Fatalf("order %d: %+v", i, o)
			}
		}
		if other, _ := listOf(t, url, "other"); len(other) != 0 {
			t.Errorf("another sale has %d", len(other))
		}
	})
}

func TestACancelledOrderIsListedAndIsNoOrderAnyMore(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		shop, url := start(t, options(rdb))
		paid, cancelled := buy(t, url, "r-1").header.Get("Weir-Order"), buy(t, url, "r-2").header.Get("Weir-Order")
		for range 2 {
			for order, state := range map[string]string{paid: Paid, cancelled: Cancelled} {
				if err := shop.Mark(t.Context(), order, state); err != nil {
					t.Fatal(err)
				}
			}
		}
		if all, _ := listOf(t, url, "demo"); len(all) != 2 || all[0].State != Paid || all[1].State != Cancelled {
			t.Fatalf("%+v", all)
		}
		if order, status := ask(t, url, "r-1"); order != paid || status != http.StatusOK {
			t.Errorf("the paid one: %q %d", order, status)
		}
		if _, status := ask(t, url, "r-2"); status != http.StatusNotFound {
			t.Errorf("the cancelled one: %d", status)
		}
		if a := buy(t, url, "r-2"); a.status != http.StatusGone || a.header.Get("Weir-Order") != "" {
			t.Errorf("bought again: %d", a.status)
		}
		for order, state := range map[string]string{cancelled: Paid, "none": Paid} {
			if err := shop.Mark(t.Context(), order, state); !errors.Is(err, ErrNoOrder) {
				t.Errorf("%s as %s: %v", order, state, err)
			}
		}
		if err := shop.Mark(t.Context(), paid, Placed); err == nil {
			t.Error("a paid order was placed again")
		}
	})
}

func TestTheListIsForWeirOnly(t *testing.T) {
	_, url := memory(t, nil)
	for name, c := range map[string]struct {
		path, sale string
		signed     bool
		want       int
	}{
		"unsigned":      {"/orders?sale=demo", "demo", false, 401},
		"another sale":  {"/orders?sale=demo", "other", true, 400},
		"no sale":       {"/orders?sale=", "", true, 400},
		"no page":       {"/orders?sale=demo&after=x", "demo", true, 400},
		"negative page": {"/orders?sale=demo&after=-1", "demo", true, 400},
		"good":          {"/orders?sale=demo&after=0", "demo", true, 200},
	} {
		r := forwarded(t, "GET", url+c.path, "", map[string]string{"Weir-Sale": c.sale})
		if !c.signed {
			r.Header.Del("Signature")
		}
		if a := mustSend(t, r); a.status != c.want {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}

func TestOrdersAreMarkedBySwitchInTestsOnly(t *testing.T) {
	shop, url := memory(t, func(o *Options) { o.AllowSwitches = true })
	order := buy(t, url, "r-1").header.Get("Weir-Order")
	for body, want := range map[string]int{
		`{"order":"` + order + `","state":"cancelled"}`: 204, `{"order":"none","state":"paid"}`: 404, `{"order":"x","state":"sold"}`: 400, `{"ordr":"x"}`: 400,
	} {
		r, err := http.NewRequest("POST", url+"/_switches/orders", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if a := mustSend(t, r); a.status != want {
			t.Errorf("%s: %d", body, a.status)
		}
	}
	if all, err := shop.listed(t.Context(), []string{order}); err != nil || all[0].State != Cancelled {
		t.Errorf("%+v %v", all, err)
	}
	_, plain := memory(t, nil)
	r, err := http.NewRequest("POST", plain+"/_switches/orders", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if a := mustSend(t, r); a.status != http.StatusNotFound {
		t.Errorf("without switches: %d", a.status)
	}
}
