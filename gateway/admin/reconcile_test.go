package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/inventory"
)

const reconcilePath = "/api/v1/sales/demo/reconcile"

func TestReconcileHandsTheQuestionOnAndTheReportBack(t *testing.T) {
	var asked string
	var reportErr error
	h := openWith(t, func(d *Deps) {
		d.Reconcile = func(ctx context.Context, sale string, apply bool, orders []ReconcileOrder) (ReconcileReport, error) {
			if until, ok := ctx.Deadline(); !ok || time.Until(until) < time.Minute {
				t.Error("too little time for a whole sale")
			}
			asked = fmt.Sprintf("%s %t %t %v", sale, apply, orders == nil, orders)
			return ReconcileReport{Sale: sale, Checked: ReconcileChecked{Ledger: 3}}, reportErr
		}
	})
	for _, c := range []struct{ body, asked string }{
		{"", "demo false true []"},
		{`{"apply":true}`, "demo true true []"},
		{`{"orders":[]}`, "demo false false []"},
		{`{"apply":false,"orders":[{"reservation":"r","order":"o","user":"u","quantity":2,"state":"confirmed"}]}`, "demo false false [{r o u 2 confirmed}]"},
	} {
		a := h.want(200, "", Operator, "POST", reconcilePath, c.body)
		if asked != c.asked {
			t.Errorf("%s: asked %s", c.body, asked)
		}
		if a.text != `{"sale":"demo","checked":{"ledger":3,"archive":0,"shop":0},"unanswered":0,"more":0,"asked":0,"listed":false,"ledger_gone":false,"differences":[]}`+"\n" {
			t.Error(a.text)
		}
	}
	a := h.want(200, "", Operator, "POST", reconcilePath, `{"apply":true}`)
	if e := h.auditOf(a); len(e) != 2 || e[0].Action != "sale.reconcile" || e[0].Reason != "apply" || e[1].Outcome != "done" {
		t.Errorf("audit %+v", e)
	}
	reportErr = fmt.Errorf("walking: %w", inventory.ErrUnavailable)
	h.want(503, "inventory_unavailable", Operator, "POST", reconcilePath, "")
	reportErr = inventory.ErrUnknownSale
	h.want(404, "unknown_sale", Operator, "POST", "/api/v1/sales/nothing/reconcile", "")
}

func TestWithoutAnEngineReconcileSaysSo(t *testing.T) {
	h := open(t)
	a := h.want(501, "not_configured", Operator, "POST", reconcilePath, `{"apply":true}`)
	if h.outcomes(a) != "not_configured" {
		t.Errorf("audit %q", h.outcomes(a))
	}
}

func TestBadOrdersOfTheShopAreNamed(t *testing.T) {
	h := openWith(t, func(d *Deps) {
		d.Reconcile = func(context.Context, string, bool, []ReconcileOrder) (ReconcileReport, error) {
			t.Error("bad orders were handed on")
			return ReconcileReport{}, nil
		}
	})
	const good = `{"reservation":"r","order":"","user":"","quantity":1,"state":"reserved"}`
	for _, c := range []struct{ list, field string }{
		{strings.Replace(good, `"r"`, `""`, 1), "orders[0].reservation"}, {good + "," + good, "orders[1].reservation"},
		{strings.Replace(good, "1", "0", 1), "orders[0].quantity"}, {strings.Replace(good, ":1,", `:"1",`, 1), "orders[0].quantity"},
		{strings.Replace(good, "1", "1.5", 1), "orders[0].quantity"},
		{strings.Replace(good, "reserved", "paid", 1), "orders[0].state"}, {strings.Replace(good, "user", "usr", 1), "orders[0]"},
		{"7", "orders[0]"}, {good + `,{"reservation":7}`, "orders[1].reservation"},
	} {
		a := h.want(422, "invalid_orders", Operator, "POST", reconcilePath, `{"orders":[`+c.list+`]}`)
		if faults := a.json["faults"].([]any); len(faults) != 1 || faults[0].(map[string]any)["field"] != c.field {
			t.Errorf("%s: %s", c.list, a.text)
		}
	}
	many := h.want(422, "invalid_orders", Operator, "POST", reconcilePath, `{"orders":[`+strings.Repeat("{},", 99)+`{}]}`)
	if n := len(many.json["faults"].([]any)); n != 32 {
		t.Errorf("%d faults", n)
	}
	for _, body := range []string{`{"orders":{}}`, `{"orders":null}`, `{"orders":"x"}`, `{"apply":1}`, `{"aply":true}`} {
		h.want(400, "bad_request", Operator, "POST", reconcilePath, body)
	}
}

// orders is a body with n orders of the shop.
func orders(t *testing.T, n int) string {
	t.Helper()
	all := make([]ReconcileOrder, n)
	for i := range all {
		all[i] = ReconcileOrder{Reservation: fmt.Sprint("reservation-", i), Order: fmt.Sprint("order-", i), User: "u", Quantity: 1, State: inventory.Confirmed}
	}
	text, err := json.Marshal(map[string]any{"orders": all})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestALargeListOfOrdersIsReadFromOperatorsOnly(t *testing.T) {
	got := 0
	h := openWith(t, func(d *Deps) {
		d.Reconcile = func(_ context.Context, _ string, _ bool, orders []ReconcileOrder) (ReconcileReport, error) {
			got = len(orders)
			return ReconcileReport{}, nil
		}
	})
	body := orders(t, MaxReconcileOrders)
	if h.want(200, "", Operator, "POST", reconcilePath, body); got != MaxReconcileOrders {
		t.Errorf("%d orders arrived", got)
	}
	h.want(422, "invalid_orders", Operator, "POST", reconcilePath, orders(t, MaxReconcileOrders+1))
	for _, role := range []string{"", Viewer, Shop} {
		if status := h.head(t, role, reconcilePath, len(body)); status != 413 {
			t.Errorf("a large body of %q: %d", role, status)
		}
	}
	if status := h.head(t, Operator, "/api/v1/bans", len(body)); status != 413 {
		t.Errorf("a large body of another route: %d", status)
	}
}

// head announces a body and tells what is answered before any of it is sent.
func (h *house) head(t *testing.T, role, path string, length int) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", path, secretOf(role), length)
	status := 0
	if _, err := fmt.Fscanf(conn, "HTTP/1.1 %d", &status); err != nil {
		t.Fatal(err)
	}
	return status
}

func TestOneReconcileRunsAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	h := openWith(t, func(d *Deps) {
		d.Reconcile = func(context.Context, string, bool, []ReconcileOrder) (ReconcileReport, error) {
			close(begun)
			<-end
			return ReconcileReport{}, nil
		}
	})
	first := make(chan int, 1)
	go func() {
		header := http.Header{"Authorization": {"Bearer " + secretOf(Operator)}}
		first <- h.send("POST", reconcilePath, "", header).status
	}()
	<-begun
	h.want(503, "reconcile_busy", Operator, "POST", reconcilePath, "")
	close(end)
	if status := <-first; status != 200 {
		t.Errorf("the first: %d", status)
	}
}

func TestArchivingHandsTheSaleOnAndSaysWhatWasDone(t *testing.T) {
	const path = "/api/v1/sales/demo/archive"
	var fault error
	h := openWith(t, func(d *Deps) {
		d.Archive = func(_ context.Context, sale string) (Archived, error) {
			return Archived{Sale: sale, Rows: 3, Open: 1, Missing: "1 is reserved"}, fault
		}
	})
	a := h.want(200, "", Operator, "POST", path, "")
	if a.text != `{"sale":"demo","rows":3,"open":1,"complete":false,"missing":"1 is reserved","deleted":false}`+"\n" || h.outcomes(a) != "intended done" {
		t.Errorf("%s %s", a.text, h.outcomes(a))
	}
	fault = fmt.Errorf("copying: %w", inventory.ErrUnavailable)
	h.want(503, "inventory_unavailable", Operator, "POST", path, "")
	fault = fmt.Errorf("copying: %w", inventory.ErrArchiveUnavailable)
	h.want(503, "archive_unavailable", Operator, "POST", path, "")
	open(t).want(501, "not_configured", Operator, "POST", path, "")
}
