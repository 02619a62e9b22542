package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/inventory"
)

func TestASaleFromPlanToCancel(t *testing.T) {
	h := open(t)
	list := h.want(200, "", Viewer, "GET", "/api/v1/sales", "").json["sales"].([]any)
	if len(list) != 3 || list[1].(map[string]any)["id"] != "demo" {
		t.Fatalf("planned: %v", list)
	}
	demo := list[1].(map[string]any)
	for member, want := range map[string]any{"version": 1.0, "item": "1001", "state": "draft", "starts_at": nil, "total": 100.0,
		"safety_stock": 5.0, "bucket_cap": 0.0, "buyer_limit": 2.0, "max_quantity": 2.0, "hold": "10m0s", "expiry": "free",
		"settle": "payment", "preheated": false, "generation": 0.0, "sold_out": false} {
		if got, ok := demo[member]; !ok || got != want {
			t.Errorf("draft %s is %v, want %v", member, got, want)
		}
	}
	h.want(404, "unknown_sale", Viewer, "GET", "/api/v1/sales/demo/level", "")
	h.want(404, "unknown_sale", Merchandiser, "POST", "/api/v1/sales/demo/pause", "")

	hot := h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	if hot.json["preheated"] != true || hot.json["state"] != "running" || hot.json["generation"] == 0.0 || hot.json["starts_at"] == nil {
		t.Errorf("preheated: %s", hot.text)
	}
	if h.outcomes(hot) != "intended done" || h.auditOf(hot)[0].Target != "sale:demo" {
		t.Errorf("audit %+v", h.auditOf(hot))
	}
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", `{}`)
	level := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo/level", "")
	if level.json["free"] != 100.0 || level.json["sale"] != "demo" {
		t.Errorf("level %s", level.text)
	}
	books := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo/audit", "")
	if books.json["ok"] != true || books.json["proved"] != true || len(books.json["differences"].([]any)) != 0 || books.json["level"] == nil {
		t.Errorf("audit %s", books.text)
	}
	for _, step := range []struct{ verb, state string }{{"pause", "paused"}, {"resume", "running"}, {"cancel", "cancelled"}} {
		a := h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/"+step.verb, `{"reason":"a test"}`)
		if a.json["state"] != step.state {
			t.Errorf("after %s: %s", step.verb, a.text)
		}
		if e := h.auditOf(a); len(e) != 2 || e[0].Action != "sale."+step.verb || e[0].Reason != "a test" {
			t.Errorf("audit %+v", e)
		}
	}
	if err := h.stock.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo", ""); a.json["state"] != "cancelled" {
		t.Error(a.text)
	}
	for _, verb := range []string{"resume", "pause", "preheat"} {
		a := h.want(409, "not_allowed", Merchandiser, "POST", "/api/v1/sales/demo/"+verb, "")
		if a.json["state"] != "cancelled" || !strings.Contains(a.text, "is cancelled") {
			t.Errorf("%s: %s", verb, a.text)
		}
	}
	if all := h.want(200, "", Viewer, "GET", "/api/v1/sales", "").json["sales"].([]any); len(all) != 3 {
		t.Errorf("a preheated sale is listed beside its plan: %v", all)
	}
}

func TestUnknownSales(t *testing.T) {
	h := open(t)
	for _, path := range []string{"", "/level", "/audit"} {
		h.want(404, "unknown_sale", Viewer, "GET", "/api/v1/sales/nothing"+path, "")
	}
	for _, verb := range []string{"preheat", "pause", "resume", "cancel"} {
		a := h.want(404, "unknown_sale", Operator, "POST", "/api/v1/sales/nothing/"+verb, "")
		if e := h.auditOf(a); len(e) == 0 || e[len(e)-1].Outcome != "unknown_sale" || e[0].Target != "sale:nothing" {
			t.Errorf("%s: audit %+v", verb, e)
		}
	}
	h.want(404, "unknown_sale", Viewer, "GET", "/api/v1/sales/%00%ff", "")
	h.want(400, "bad_request", Operator, "POST", "/api/v1/sales/demo/preheat", `{"force":true}`)
}

func TestAPreheatThatCannotBe(t *testing.T) {
	h := open(t)
	a := h.ask(Operator, "POST", "/api/v1/sales/broken/preheat", "")
	if a.status != 422 || a.json["code"] != "invalid_preheat" && a.json["code"] != "invalid_sale" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	checkProblem(t, a)
	if h.outcomes(a) != "intended "+a.json["code"].(string) {
		t.Errorf("audit %q", h.outcomes(a))
	}
}

// reserve puts a sale on and takes a unit.
func reserve(t *testing.T, h *house) string {
	t.Helper()
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	id := inventory.NewOrderID("demo", "alice")
	r, err := h.stock.Reserve(t.Context(), inventory.Order{ID: id, Sale: "demo", Item: "1001", User: "alice", Quantity: 1,
		AttemptFor: time.Second})
	if err != nil || r.Code != inventory.Taken {
		t.Fatalf("reserve: %+v %v", r, err)
	}
	return "/api/v1/reservations/" + id
}

func TestTheShopConfirmsAReservation(t *testing.T) {
	h := open(t)
	path := reserve(t, h)
	if a := h.want(200, "", Shop, "GET", path, ""); a.json["state"] != "reserved" || a.json["user"] != "alice" {
		t.Error(a.text)
	}
	for range 2 { // asking twice gets the earlier answer
		a := h.want(200, "", Shop, "POST", path+"/confirm", `{"order":"o-1"}`)
		if a.json["state"] != "confirmed" || a.json["order"] != "o-1" {
			t.Error(a.text)
		}
		if e := h.auditOf(a); len(e) != 2 || e[1].Outcome != "done" || e[0].Who != "the-shop" || e[0].Action != "reservation.confirm" {
			t.Errorf("audit %+v", e)
		}
	}
	if n := h.redis.XLen(t.Context(), shopKey()).Val(); n != 4 {
		t.Errorf("%d entries in the shop's log", n)
	}
}

func TestAReleasedReservationIsNotConfirmed(t *testing.T) {
	h := open(t)
	path := reserve(t, h)
	if a := h.want(200, "", Shop, "POST", path+"/release", `{}`); a.json["state"] != "released" {
		t.Error(a.text)
	}
	if a := h.want(409, "not_allowed", Shop, "POST", path+"/confirm", ""); a.json["state"] != "released" {
		t.Error(a.text)
	}
}

func TestUnknownReservations(t *testing.T) {
	h := open(t)
	reserve(t, h)
	for _, id := range []string{"nothing", inventory.NewOrderID("demo", "bob"), inventory.NewOrderID("other", "bob")} {
		h.want(404, "unknown_reservation", Shop, "GET", "/api/v1/reservations/"+id, "")
		h.want(404, "unknown_reservation", Shop, "POST", "/api/v1/reservations/"+id+"/confirm", "")
		h.want(404, "unknown_reservation", Shop, "POST", "/api/v1/reservations/"+id+"/release", "")
	}
	h.want(400, "bad_request", Shop, "POST", "/api/v1/reservations/x/confirm", `{"order":"a\u0007"}`)
	h.want(400, "bad_request", Shop, "POST", "/api/v1/reservations/x/release", `{"order":"a"}`)
}

func TestErrorsOfTheStockHaveTheirCodes(t *testing.T) {
	for err, want := range map[error]struct {
		status int
		code   string
	}{
		inventory.ErrSaleStarted:    {http.StatusConflict, "sale_started"},
		inventory.ErrVersionReused:  {http.StatusConflict, "version_reused"},
		inventory.ErrInvalidSale:    {http.StatusUnprocessableEntity, "invalid_sale"},
		inventory.ErrInvalidPreheat: {http.StatusUnprocessableEntity, "invalid_preheat"},
		inventory.ErrSaleExists:     {http.StatusConflict, "sale_exists"},
		inventory.ErrPlanChanged:    {http.StatusPreconditionFailed, "plan_changed"},
		inventory.ErrTooManyDrafts:  {http.StatusConflict, "drafts_full"},
		inventory.ErrUnavailable:    {http.StatusServiceUnavailable, "inventory_unavailable"},
		inventory.ErrOutcomeUnknown: {http.StatusServiceUnavailable, "outcome_unknown"},
		inventory.ErrAttemptOver:    {http.StatusConflict, "attempt_over"},
		http.ErrAbortHandler:        {http.StatusInternalServerError, "internal"},
	} {
		if no := refusalOf(err); no.status != want.status || no.code != want.code {
			t.Errorf("%v: %d %s", err, no.status, no.code)
		}
	}
}

func TestABrokenBookIsADifference(t *testing.T) {
	h := open(t)
	reserve(t, h)
	for _, key := range h.mini.Keys() {
		if strings.HasSuffix(key, ":head") {
			h.mini.HSet(key, "reserved", "7")
		}
	}
	a := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo/audit", "")
	if a.json["ok"] != false || a.json["proved"] != true || !strings.Contains(a.json["differences"].([]any)[0].(string), "reserved") {
		t.Error(a.text)
	}
}

func TestAStockThatRedisHasLostIsNamedSo(t *testing.T) {
	h := open(t)
	reserve(t, h)
	h.mini.FlushAll()
	if err := h.stock.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/level", "/audit"} {
		h.want(409, "stock_lost", Viewer, "GET", "/api/v1/sales/demo"+path, "")
	}
	h.want(409, "stock_lost", Merchandiser, "POST", "/api/v1/sales/demo/resume", "")
}

// TestACancellationThatIsRecordedSaysSo: it is final, so "nothing was changed"
// would be untrue.
func TestACancellationThatIsRecordedSaysSo(t *testing.T) {
	h := open(t)
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	view, _ := h.stock.View("demo")
	head := "weir:{" + view.Level.Buckets[0].Tag + "}:demo:1:head"
	if !h.mini.Exists(head) {
		t.Fatalf("no key %s in %v", head, h.mini.Keys())
	}
	h.mini.Del(head)
	if err := h.mini.Set(head, "out of order"); err != nil {
		t.Fatal(err)
	}
	a := h.want(503, "outcome_unknown", Merchandiser, "POST", "/api/v1/sales/demo/cancel", "")
	if !strings.Contains(a.text, "recorded and stays so") {
		t.Error(a.text)
	}
	_ = h.stock.Refresh(t.Context()) // the bucket cannot be read, the record can
	if a := h.want(200, "", Viewer, "GET", "/api/v1/sales/demo", ""); a.json["state"] != "cancelled" {
		t.Error(a.text)
	}
}
