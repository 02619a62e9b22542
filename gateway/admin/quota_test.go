package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"weir/inventory"
)

// quotaShop answers every question with one error, or with yes.
type quotaShop struct{ fault atomic.Pointer[error] }

func (q *quotaShop) say(err error) { q.fault.Store(&err) }

func (q *quotaShop) Freeze(context.Context, inventory.QuotaAsk) error { return *q.fault.Load() }

func (q *quotaShop) Thaw(context.Context, inventory.QuotaAsk) error { return *q.fault.Load() }

// withQuotas is a house whose shop freezes.
func withQuotas(t *testing.T) (*house, *quotaShop) {
	t.Helper()
	shop := &quotaShop{}
	shop.say(nil)
	var stock *inventory.Store
	h := openWith(t, func(d *Deps) {
		var err error
		stock, err = inventory.New(inventory.Config{Redis: d.Redis, Memory: true, Replica: "quota", Log: slog.New(slog.DiscardHandler), Quota: shop})
		if err != nil {
			t.Fatal(err)
		}
		d.Stock = stock
	})
	h.stock = stock
	return h, shop
}

func TestASaleShowsWhatTheShopFroze(t *testing.T) {
	h, _ := withQuotas(t)
	if a := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo", ""); a.json["quota"] != nil || strings.Contains(a.text, "quota") {
		t.Errorf("before: %s", a.text)
	}
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	a := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo", "")
	q, _ := a.json["quota"].(map[string]any)
	if q["state"] != "frozen" || q["units"] != 105.0 || q["item"] != "1001" || q["version"] != 1.0 || q["sale"] != "demo" {
		t.Errorf("%s", a.text)
	}
	if a := h.want(200, "", Viewer, "GET", "/api/v1/sales", ""); strings.Contains(a.text, "quota") {
		t.Errorf("the list asks for each: %s", a.text)
	}
	if err := h.redis.HSet(t.Context(), "weir:{sales}:quotas", "demo", "no JSON").Err(); err != nil {
		t.Fatal(err)
	}
	a = h.want(200, "", Viewer, "GET", "/api/v1/sales/demo", "")
	if q, _ := a.json["quota"].(map[string]any); q["state"] != "unknown" || q["fault"] == "" {
		t.Errorf("unreadable: %s", a.text)
	}
}

func TestAPreheatTellsWhatTheShopSaid(t *testing.T) {
	h, shop := withQuotas(t)
	shop.say(fmt.Errorf("%w: total: its cap is 7", inventory.ErrQuotaRefused))
	a := h.want(422, "invalid_preheat", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	if detail, _ := a.json["detail"].(string); !strings.Contains(detail, "the shop refused the quota: total: its cap is 7") || a.json["faults"] != nil {
		t.Errorf("%s", a.text)
	}
	shop.say(errors.New("no answer"))
	a = h.want(503, "quota_unknown", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	if a.header.Get("Retry-After") != "1" || !strings.Contains(a.text, "no answer") || h.outcomes(a) != "intended quota_unknown" {
		t.Errorf("%s, audit %q", a.text, h.outcomes(a))
	}
	if _, ok := h.stock.View("demo"); ok {
		t.Error("it is preheated")
	}
	shop.say(nil)
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
}
