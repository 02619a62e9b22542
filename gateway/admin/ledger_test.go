package admin

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/inventory"
)

// sell opens demo and lets users buy one unit each, a second apart. The first
// of them pays.
func sell(t *testing.T, h *house, users ...string) (ids []string) {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	h.mini.SetTime(now)
	h.want(200, "", Merchandiser, "POST", "/api/v1/sales/demo/preheat", "")
	for i, user := range users {
		h.mini.SetTime(now.Add(time.Duration(i+1) * time.Second))
		id := inventory.NewOrderID("demo", user)
		r, err := h.stock.Reserve(t.Context(), inventory.Order{ID: id, Sale: "demo", Item: "1001", User: user, Quantity: 1, AttemptFor: time.Second})
		if err != nil || r.Code != inventory.Taken {
			t.Fatalf("%s: %+v %v", user, r, err)
		}
		ids = append(ids, id)
	}
	h.want(200, "", Shop, "POST", "/api/v1/reservations/"+ids[0]+"/confirm", `{"order":"o-1"}`)
	return ids
}

const demoLedger = "/api/v1/sales/demo/ledger"

func (h *house) rows(query string) []map[string]any {
	h.t.Helper()
	var rows []map[string]any
	for _, r := range h.want(200, "", Viewer, "GET", demoLedger+"?"+query, "").json["rows"].([]any) {
		rows = append(rows, r.(map[string]any))
	}
	return rows
}

func TestTheLedgerSaysWhoTookWhatWhenForWhat(t *testing.T) {
	h := open(t)
	ids := sell(t, h, "ann", "bob", "ann", "cid")
	if rows := h.rows("user=ann"); len(rows) != 2 || rows[0]["reservation"] != ids[0] || rows[1]["reservation"] != ids[2] {
		t.Errorf("of ann: %v", rows)
	}
	rows := h.rows("order=o-1")
	if len(rows) != 1 {
		t.Fatalf("of the order: %v", rows)
	}
	for member, want := range map[string]any{"reservation": ids[0], "kind": "order", "user": "ann", "item": "1001", "quantity": 1.0,
		"state": "confirmed", "order": "o-1"} {
		if rows[0][member] != want {
			t.Errorf("%s is %v, want %v", member, rows[0][member], want)
		}
	}
	if at, err := time.Parse(time.RFC3339, rows[0]["reserved_at"].(string)); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("reserved at %v", rows[0]["reserved_at"])
	}
	for query, want := range map[string]int{
		"": 4, "state=reserved": 3, "state=confirmed": 1, "state=released": 0, "user=ann&state=reserved": 1, "user=nobody": 0,
		"reservation=" + ids[1]: 1, "reservation=" + ids[1] + "&user=bob": 1, "reservation=" + ids[1] + "&user=ann": 0,
		"reservation=" + inventory.NewOrderID("demo", "dan"): 0, "reservation=nonsense": 0, "user=" + url.QueryEscape("a b&c"): 0,
	} {
		if got := h.rows(query); len(got) != want {
			t.Errorf("%q: %d rows, want %d", query, len(got), want)
		}
	}
}

func TestTheLedgerIsTurnedPageByPageWithoutLossOrRepeat(t *testing.T) {
	h := open(t)
	users := make([]string, 57)
	for i := range users {
		users[i] = fmt.Sprint("u", i)
	}
	ids := sell(t, h, users...)
	var got []string
	cursor := ""
	for pages := 1; ; pages++ {
		a := h.want(200, "", Viewer, "GET", demoLedger+"?limit=10&cursor="+cursor, "")
		for _, r := range a.json["rows"].([]any) {
			got = append(got, r.(map[string]any)["reservation"].(string))
		}
		if a.json["complete"] != true {
			t.Fatal(a.text)
		}
		if cursor, _ = a.json["next"].(string); cursor == "" {
			if pages != 6 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if !slices.Equal(got, ids) { // bought a second apart, so in order of time
		t.Errorf("%d rows, want %d in order", len(got), len(ids))
	}
	if a := h.want(200, "", Viewer, "GET", demoLedger+"?limit=57", ""); a.json["next"] != "" {
		t.Errorf("a next page of nothing: %v", a.json["next"])
	}
}

func TestALedgerThatTakesTooLongSaysThatRowsAreMissing(t *testing.T) {
	h := open(t)
	sell(t, h, "ann", "bob")
	h.console.ledgerBudget = -time.Second // over before it begins
	a := h.want(200, "", Viewer, "GET", demoLedger, "")
	if a.text != `{"rows":[],"next":"","complete":false}`+"\n" {
		t.Error(a.text)
	}
}

func TestBadQuestionsToTheLedger(t *testing.T) {
	h := open(t)
	h.want(404, "unknown_sale", Viewer, "GET", "/api/v1/sales/nothing/ledger", "")
	h.want(404, "unknown_sale", Viewer, "GET", "/api/v1/sales/nothing/ledger?reservation="+inventory.NewOrderID("nothing", "ann"), "")
	if a := h.want(404, "unknown_sale", Viewer, "GET", demoLedger, ""); !strings.Contains(a.text, "planned and not preheated") {
		t.Error(a.text)
	}
	sell(t, h, "ann")
	for _, query := range []string{"state=sold", "limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-5.a", "cursor=5", "users=ann", "user=a&user=b"} {
		h.want(400, "bad_request", Viewer, "GET", demoLedger+"?"+query, "")
	}
}

func TestARowThatComesTwiceIsShownOnceAsItWasLast(t *testing.T) {
	page := &ledgerHeap{limit: 4}
	at := func(id string, sec int64, s inventory.State) inventory.Reservation {
		return inventory.Reservation{ID: id, ReservedAt: time.Unix(sec, 0), State: s}
	}
	for i := range 3 {
		page.add(at("b", 2, inventory.Reserved))
		page.add(at("z", int64(100-i), inventory.Reserved))
		page.add(at("a", 1, inventory.Reserved))
		page.add(at("b", 2, inventory.Confirmed))
		page.add(at(fmt.Sprint("c", i), 3, inventory.Reserved))
	}
	got := page.answer(3, true)
	if len(got.Rows) != 3 || got.Rows[0].Reservation != "a" || got.Rows[1].Reservation != "b" || got.Rows[1].State != inventory.Confirmed ||
		got.Rows[2].Reservation != "c0" || got.Next != "3000.c0" {
		t.Errorf("%+v", got)
	}
	if len(page.rows) > 2*page.limit {
		t.Errorf("%d rows are kept", len(page.rows))
	}
}
