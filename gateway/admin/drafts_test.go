package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/inventory"
)

const salesPath = "/api/v1/sales"

// planOf is the body of a plan that starts in an hour, changed by pairs of
// member and JSON; an empty JSON leaves the member out.
func planOf(id string, changes ...string) string {
	start := time.Now().Add(time.Hour).Truncate(time.Second)
	members := map[string]string{
		"id": `"` + id + `"`, "item": `"item-` + id + `"`, "starts_at": quote(start), "ends_at": quote(start.Add(time.Hour)),
		"total": "100", "buyer_limit": "2", "max_quantity": "2", "hold": `"15m"`, "expiry": `"free"`, "settle": `"payment"`,
	}
	for i := 0; i < len(changes); i += 2 {
		members[changes[i]] = changes[i+1]
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != "" {
			all = append(all, `"`+name+`":`+members[name])
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

func quote(t time.Time) string { return `"` + t.Format(time.RFC3339) + `"` }

func TestASaleIsPlannedEditedPreheatedEditedAgainAndPreheatedAgain(t *testing.T) {
	h := open(t)
	made := h.want(201, "", Merchandiser, "POST", salesPath, planOf("spring", "reason", `"for easter"`))
	first := made.header.Get("ETag")
	if made.header.Get("Location") != salesPath+"/spring" || !strings.HasPrefix(first, `"v1-`) {
		t.Errorf("created: %v", made.header)
	}
	for member, want := range map[string]any{"id": "spring", "version": 1.0, "state": "draft", "total": 100.0, "hold": "15m0s",
		"preheated": false, "preheated_version": 0.0, "in_config_file": false} {
		if made.json[member] != want {
			t.Errorf("%s is %v, want %v", member, made.json[member], want)
		}
	}
	if e := h.auditOf(made); len(e) != 2 || e[1].Action != "sale.create" || e[1].Target != "sale:spring" || e[1].Reason != "for easter" {
		t.Errorf("audit %+v", e)
	}
	edited := h.match(200, "", Merchandiser, "PUT", salesPath+"/spring", planOf("spring", "total", "50"), first)
	second := edited.header.Get("ETag")
	if edited.json["version"] != 2.0 || second == first {
		t.Errorf("edited: %s %s", edited.text, second)
	}
	hot := h.want(200, "", Merchandiser, "POST", salesPath+"/spring/preheat", "")
	if hot.json["state"] != "pending" || hot.json["version"] != 2.0 || hot.json["preheated_version"] != 2.0 || hot.header.Get("ETag") != second {
		t.Errorf("preheated: %s %v", hot.text, hot.header)
	}
	h.match(200, "", Merchandiser, "PUT", salesPath+"/spring", planOf("spring", "id", "", "total", "60"), second)
	one := h.want(200, "", Viewer, "GET", salesPath+"/spring", "")
	for member, want := range map[string]any{"version": 3.0, "preheated_version": 2.0, "state": "pending", "total": 60.0, "preheated": true} {
		if one.json[member] != want {
			t.Errorf("waiting: %s is %v, want %v", member, one.json[member], want)
		}
	}
	if l := h.want(200, "", Viewer, "GET", salesPath+"/spring/level", ""); l.json["total"] != 50.0 || l.json["buckets"] == nil {
		t.Errorf("an edit reached the stock before its preheat: %s", l.text)
	}
	again := h.want(200, "", Merchandiser, "POST", salesPath+"/spring/preheat", "")
	if again.json["version"] != 3.0 || again.json["preheated_version"] != 3.0 || again.json["total"] != 60.0 {
		t.Errorf("preheated again: %s", again.text)
	}
	if n := h.redis.HLen(t.Context(), "weir:{sales}:drafts").Val(); n != 0 {
		t.Errorf("%d drafts are left", n)
	}
}

func TestListsShowFilePlansDraftsAndPreheatedSales(t *testing.T) {
	h := open(t)
	h.want(201, "", Operator, "POST", salesPath, planOf("spring", "starts_at", "null"))
	h.want(201, "", Operator, "POST", salesPath, planOf("summer"))
	h.want(200, "", Operator, "POST", salesPath+"/summer/preheat", "")
	h.want(200, "", Operator, "POST", salesPath+"/demo/preheat", "")
	h.match(200, "", Operator, "PUT", salesPath+"/summer", planOf("summer", "total", "7"), "*")
	var got []string
	for _, s := range h.want(200, "", Viewer, "GET", salesPath, "").json["sales"].([]any) {
		s := s.(map[string]any)
		got = append(got, fmt.Sprint(s["id"], " ", s["state"], " ", s["version"], "/", s["preheated_version"], " ", s["in_config_file"]))
	}
	want := []string{"broken draft 1/0 true", "demo running 1/1 true", "later draft 1/0 true", "spring draft 1/0 false", "summer pending 2/1 false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if a := h.want(404, "unknown_sale", Viewer, "GET", salesPath+"/spring/level", ""); !strings.Contains(a.text, "planned and not preheated") {
		t.Error(a.text)
	}
}

func TestEveryFaultOfAPlanIsToldAtOnceWithFieldAndValue(t *testing.T) {
	h := open(t)
	a := h.want(422, "invalid_sale", Merchandiser, "POST", salesPath, planOf("a b", "item", "7", "starts_at", `"2030-01-01T00:00:00"`,
		"ends_at", "null", "total", `"100"`, "buyer_limit", "-1", "max_quantity", "1.5", "hold", `"15"`, "expiry", `"never"`, "settle", "",
		"colour", `"red"`, "safety_stock", "1e99", "buckets", "-1", "bucket_cap", "null", "reason", `"a\u0007"`))
	var told struct{ Faults []Fault }
	if err := json.Unmarshal([]byte(a.text), &told); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"id": `"a b"`, "item": "7", "starts_at": `"2030-01-01T00:00:00"`, "ends_at": "null", "total": `"100"`,
		"buyer_limit": "-1", "max_quantity": "1.5", "hold": `"15"`, "expiry": `"never"`, "settle": "", "colour": `"red"`,
		"safety_stock": "1e99", "buckets": "-1", "bucket_cap": "null", "reason": `"a\u0007"`}
	for _, f := range told.Faults {
		if want, ok := values[f.Field]; !ok || f.Value != want || f.Problem == "" {
			t.Errorf("%+v", f)
		}
		if !strings.Contains(a.json["detail"].(string), `"`+f.Field+`"`) {
			t.Errorf("the detail does not name %s", f.Field)
		}
		delete(values, f.Field)
	}
	if len(values) != 0 {
		t.Errorf("not told: %v", values)
	}
	if empty := h.want(422, "invalid_sale", Merchandiser, "POST", salesPath, ""); len(empty.json["faults"].([]any)) != 10 {
		t.Errorf("an empty plan: %s", empty.text)
	}
	if h.outcomes(a) != "invalid_sale" {
		t.Errorf("audit %q", h.outcomes(a))
	}
}

func TestPlansThatMeanNothingAreRefused(t *testing.T) {
	h := open(t)
	past, late := quote(time.Now().Add(-time.Minute)), quote(time.Now().Add(9*time.Hour))
	for _, c := range []struct{ field, body string }{
		{"total", planOf("a", "total", "0", "max_quantity", "1")}, {"total", planOf("a", "total", "1000000001")},
		{"max_quantity", planOf("a", "max_quantity", "3")}, {"max_quantity", planOf("a", "max_quantity", "101", "buyer_limit", "0")},
		{"max_quantity", planOf("a", "max_quantity", "0")},
		{"ends_at", planOf("a", "starts_at", "null", "ends_at", past)}, {"ends_at", planOf("a", "starts_at", late)},
		{"starts_at", planOf("a", "starts_at", `"0001-01-01T00:00:00Z"`)}, {"starts_at", planOf("a", "starts_at", `"2030-01-01T00:00:00.0001Z"`)},
		{"starts_at", planOf("a", "starts_at", "")}, {"starts_at", planOf("a", "starts_at", "1893456000")},
		{"hold", planOf("a", "hold", "900")}, {"hold", planOf("a", "hold", `"8d"`)}, {"hold", planOf("a", "hold", `"1s1ns"`)},
		{"expiry", planOf("a", "settle", `"accept"`)}, {"expiry", planOf("a", "expiry", `"ask"`)},
		{"version", planOf("a", "version", "7")}, {"buckets", planOf("a", "buckets", "1025")}, {"Total", planOf("a", "Total", "5")},
	} {
		a := h.want(422, "invalid_sale", Merchandiser, "POST", salesPath, c.body)
		if faults := a.json["faults"].([]any); len(faults) != 1 || faults[0].(map[string]any)["field"] != c.field {
			t.Errorf("%s: %s", c.body, a.text)
		}
	}
	h.want(400, "bad_request", Merchandiser, "POST", salesPath, `{"id":"a",}`)
	h.want(400, "bad_request", Merchandiser, "POST", salesPath, `[]`)
	twice := h.want(422, "invalid_sale", Merchandiser, "POST", salesPath, `{"id":"a","id":"b"}`)
	if !strings.Contains(twice.text, "comes twice") {
		t.Error(twice.text)
	}
	if a := h.ask(Merchandiser, "POST", salesPath, planOf("a", "reason", `"`+strings.Repeat("x", 65<<10)+`"`)); a.status != 413 {
		t.Errorf("a body of 65 KiB: %d", a.status)
	}
	if n := h.redis.HLen(t.Context(), "weir:{sales}:drafts").Val(); n != 0 {
		t.Errorf("%d drafts were made", n)
	}
}

func TestTimesWithOffsetsAreKeptAsTheMomentThatTheyAre(t *testing.T) {
	h := open(t)
	made := h.want(201, "", Operator, "POST", salesPath, planOf("a", "starts_at", `"2100-03-29T02:30:00+01:00"`, "ends_at", `"2100-03-29T04:30:00.250+02:00"`))
	if made.json["starts_at"] != "2100-03-29T01:30:00Z" || made.json["ends_at"] != "2100-03-29T02:30:00.25Z" {
		t.Error(made.text)
	}
	again := h.match(200, "", Operator, "PUT", salesPath+"/a", planOf("a", "starts_at", `"2100-03-29T01:30:00Z"`, "ends_at", `"2100-03-29T02:30:00.25Z"`), "*")
	if again.json["starts_at"] != made.json["starts_at"] || again.json["ends_at"] != made.json["ends_at"] {
		t.Errorf("saving it again moved it: %s", again.text)
	}
}

func TestAnEditMustNameThePlanThatItChanges(t *testing.T) {
	h := open(t)
	made := h.want(201, "", Operator, "POST", salesPath, planOf("a"))
	tag, path := made.header.Get("ETag"), salesPath+"/a"
	for _, method := range []string{"PUT", "DELETE"} {
		body := ""
		if method == "PUT" {
			body = planOf("a", "total", "5")
		}
		h.match(428, "precondition_required", Operator, method, path, body, "")
		for _, wrong := range []string{`"v1-0"`, "W/" + tag, `"x", "y"`} {
			a := h.match(412, "plan_changed", Operator, method, path, body, wrong)
			if a.header.Get("ETag") != tag || a.json["etag"] != tag {
				t.Errorf("the present ETag is not told: %v %s", a.header, a.text)
			}
			if h.outcomes(a) != "intended plan_changed" {
				t.Errorf("audit %q", h.outcomes(a))
			}
		}
		for _, bad := range []string{strings.Trim(tag, `"`), `"`, `"a" "b", c`, `"*"`} {
			h.match(400, "bad_request", Operator, method, path, body, bad)
		}
		h.match(404, "unknown_sale", Operator, method, salesPath+"/nothing", strings.Replace(body, `"id":"a",`, "", 1), "*")
		h.match(409, "in_config_file", Operator, method, salesPath+"/demo", body, "*")
	}
	h.match(422, "invalid_sale", Operator, "PUT", path, planOf("b"), tag)
	h.match(200, "", Operator, "PUT", path, planOf("a", "total", "5"), `"other", `+tag)
	h.match(200, "", Operator, "PUT", path, planOf("a", "total", "5"), tag) // its answer was lost: the same edit again
	h.match(412, "plan_changed", Operator, "PUT", path, planOf("a", "total", "6"), tag)
	h.match(200, "", Operator, "DELETE", path+"?reason=mistake", "", "*")
	h.want(404, "unknown_sale", Viewer, "GET", path, "")
	h.want(409, "in_config_file", Operator, "POST", salesPath, planOf("demo"))
}

func TestOfTwoEditorsAtOnceOneLoses(t *testing.T) {
	h := open(t)
	tag := h.want(201, "", Operator, "POST", salesPath, planOf("a")).header.Get("ETag")
	var won, lost atomic.Int64
	var both sync.WaitGroup
	for _, total := range []string{"11", "12"} {
		both.Go(func() {
			header := map[string][]string{"Authorization": {"Bearer " + secretOf(Operator)}, "Content-Type": {"application/json"}, "If-Match": {tag}}
			switch a := h.send("PUT", salesPath+"/a", planOf("a", "total", total), header); a.status {
			case 200:
				won.Add(1)
			case 412:
				lost.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	both.Wait()
	if won.Load() != 1 || lost.Load() != 1 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
}

func TestWhatHasStartedIsNotEdited(t *testing.T) {
	h := open(t)
	h.want(201, "", Operator, "POST", salesPath, planOf("now", "starts_at", "null"))
	if a := h.want(200, "", Operator, "POST", salesPath+"/now/preheat", ""); a.json["state"] != "running" {
		t.Fatal(a.text)
	}
	a := h.match(409, "sale_started", Operator, "PUT", salesPath+"/now", planOf("now"), "*")
	if a.header.Get("ETag") == "" || h.outcomes(a) != "intended sale_started" {
		t.Errorf("%v %s", a.header, h.outcomes(a))
	}
	h.match(409, "sale_preheated", Operator, "DELETE", salesPath+"/now", "", "*")
	h.want(409, "sale_exists", Operator, "POST", salesPath, planOf("now"))
	h.want(201, "", Operator, "POST", salesPath, planOf("off"))
	h.want(200, "", Operator, "POST", salesPath+"/off/preheat", "")
	h.match(200, "", Operator, "PUT", salesPath+"/off", planOf("off", "total", "5"), "*")
	h.want(200, "", Operator, "POST", salesPath+"/off/cancel", "")
	h.match(409, "sale_started", Operator, "PUT", salesPath+"/off", planOf("off"), "*")
	if one := h.want(200, "", Viewer, "GET", salesPath+"/off", ""); one.json["version"] != 1.0 || one.json["state"] != "cancelled" {
		t.Errorf("an edit that came too late is shown: %s", one.text)
	}
}

func TestARefusedPreheatIsToldByFieldCountedAndRecorded(t *testing.T) {
	h := open(t)
	refused := func(status int, code, sale, field, told string) {
		t.Helper()
		before := h.stock.Stats().Refused
		a := h.want(status, code, Merchandiser, "POST", salesPath+"/"+sale+"/preheat", "")
		faults, _ := a.json["faults"].([]any)
		if len(faults) != 1 || faults[0].(map[string]any)["field"] != field || !strings.Contains(a.text, told) {
			t.Errorf("%s: %s", sale, a.text)
		}
		if h.stock.Stats().Refused != before+1 {
			t.Errorf("%s: not counted", sale)
		}
		if h.outcomes(a) != "intended "+code || h.auditOf(a)[1].Target != "sale:"+sale {
			t.Errorf("audit %q", h.outcomes(a))
		}
	}
	refused(422, "invalid_preheat", "broken", "bucket_cap", "100")
	h.want(201, "", Operator, "POST", salesPath, planOf("one", "item", `"cup"`))
	h.want(201, "", Operator, "POST", salesPath, planOf("two", "item", `"cup"`))
	h.want(201, "", Operator, "POST", salesPath, planOf("late"))
	h.want(200, "", Operator, "POST", salesPath+"/one/preheat", "")
	refused(422, "invalid_sale", "two", "item", "on sale in one at that time")
	h.match(200, "", Operator, "PUT", salesPath+"/one", planOf("one", "item", `"cup"`, "total", "5"), "*")
	h.mini.SetTime(time.Now().Add(90 * time.Minute)) // one has started, late is not over
	refused(409, "sale_started", "one", "starts_at", "has started")
	h.mini.SetTime(time.Now().Add(3 * time.Hour))
	refused(422, "invalid_sale", "late", "ends_at", "is past")
	h.want(404, "unknown_sale", Operator, "POST", salesPath+"/nothing/preheat", "")
	if n := h.stock.Stats().Refused; n != 4 {
		t.Errorf("%d counted", n)
	}
}

func TestThePlansOfTheAPIKeepTheRulesOfTheConfiguration(t *testing.T) {
	h := openWith(t, func(d *Deps) {
		d.CheckPlan = func(s inventory.Sale) []Fault {
			if s.Hold < time.Hour {
				return []Fault{{Field: "hold", Problem: "must outlast the shop"}}
			}
			return nil
		}
	})
	if a := h.want(422, "invalid_sale", Operator, "POST", salesPath, planOf("a")); !strings.Contains(a.text, `must outlast the shop`) || !strings.Contains(a.text, "15m") {
		t.Error(a.text)
	}
	h.want(201, "", Operator, "POST", salesPath, planOf("a", "hold", `"1h"`))
}

func TestDraftsWithoutRedisAreA503(t *testing.T) {
	h := open(t)
	h.redis.Close()
	for _, c := range [][3]string{{"GET", salesPath, ""}, {"GET", salesPath + "/a", ""}, {"POST", salesPath, planOf("a")}, {"POST", salesPath + "/a/preheat", ""}} {
		h.want(503, "inventory_unavailable", Operator, c[0], c[1], c[2])
	}
}

func TestFaultsOfTheLeafAreReadLineByLine(t *testing.T) {
	err := inventory.Sale{ID: "a b", Version: 1, Item: "i", Total: -1, MaxQuantity: 1, Hold: time.Second, EndAt: time.Now(),
		Expiry: inventory.ExpiryFree, Settle: inventory.SettlePayment}.Validate()
	got := faultsOf(fmt.Errorf("preheating: %w", err))
	if len(got) != 2 || got[0].Field != "id" || got[1].Field != "total" || got[1].Problem != "must be 0 or more" {
		t.Errorf("%+v", got)
	}
	if got := faultsOf(errors.New("no field here")); got != nil {
		t.Errorf("%+v", got)
	}
}
