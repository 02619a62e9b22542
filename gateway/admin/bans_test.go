package admin

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const bansPath = "/api/v1/bans"

func TestABanIsAddedShownExplainedAndLifted(t *testing.T) {
	h := open(t)
	a := h.want(201, "", Security, "POST", bansPath, `{"scope":"cidr","value":"::ffff:1.2.3.4/120","reason":"bots","for":"24h"}`)
	for member, want := range map[string]any{"scope": "cidr", "value": "1.2.3.0/24", "reason": "bots",
		"author": "the-security", "origin": "api", "seq": 1.0} {
		if a.json[member] != want {
			t.Errorf("%s is %v, want %v", member, a.json[member], want)
		}
	}
	until, err := time.Parse(time.RFC3339, a.json["until"].(string))
	if err != nil || time.Until(until) > 24*time.Hour || time.Until(until) < 23*time.Hour {
		t.Errorf("until %v, %v", a.json["until"], err)
	}
	h.want(201, "", Operator, "POST", bansPath, `{"scope":"addr","value":"1.2.3.4","reason":"","permanent":true}`)

	list := h.want(200, "", Viewer, "GET", bansPath, "")
	if bans := list.json["bans"].([]any); len(bans) != 2 || bans[0].(map[string]any)["until"] != nil || list.json["total"] != 2.0 {
		t.Errorf("list %s", list.text)
	}
	one := h.want(200, "", Viewer, "GET", bansPath+"?scope=cidr&value=1.2.3.77/24", "")
	if len(one.json["bans"].([]any)) != 1 {
		t.Errorf("filter %s", one.text)
	}
	if none := h.want(200, "", Viewer, "GET", bansPath+"?scope=user", ""); none.text != `{"bans":[],"total":0}`+"\n" {
		t.Error(none.text)
	}
	why := h.want(200, "", Viewer, "GET", "/api/v1/explain?scope=addr&value=::ffff:1.2.3.4", "")
	if why.json["banned"] != true || len(why.json["entries"].([]any)) != 2 {
		t.Errorf("explain %s", why.text)
	}
	gone := h.want(200, "", Security, "DELETE", bansPath+"?scope=cidr&value=1.2.3.0/24&reason=mistake", "")
	if gone.json["removed"] != true || gone.json["ban"].(map[string]any)["reason"] != "bots" {
		t.Error(gone.text)
	}
	if e := h.auditOf(gone); len(e) != 2 || e[1].Action != "ban.remove" || e[1].Target != "cidr:1.2.3.0/24" || e[1].Reason != "mistake" {
		t.Errorf("audit %+v", e)
	}
	again := h.want(404, "not_found", Security, "DELETE", bansPath+"?scope=cidr&value=1.2.3.0/24", "")
	if h.outcomes(again) != "intended not_found" {
		t.Errorf("audit %q", h.outcomes(again))
	}
	if free := h.want(200, "", Viewer, "GET", "/api/v1/explain?scope=user&value=x", ""); free.text != `{"banned":false,"entries":[]}`+"\n" {
		t.Error(free.text)
	}
}

func TestBadBansAreRefusedWithFieldAndValue(t *testing.T) {
	h := open(t)
	for _, c := range []struct {
		body, code string
		told       []string // what the detail must name
	}{
		{`{"scope":"user","value":"a"}`, "invalid_entry", []string{"for", "until", "permanent"}},
		{`{"scope":"user","value":"a","permanent":false}`, "invalid_entry", []string{"permanent", "false"}},
		{`{"scope":"user","value":"a","for":""}`, "invalid_entry", []string{"for"}},
		{`{"scope":"user","value":"a","for":"1h","permanent":true}`, "invalid_entry", []string{"Exactly one", "1h"}},
		{`{"scope":"user","value":"a","for":"1h","until":"2099-01-01T00:00:00Z"}`, "invalid_entry", []string{"Exactly one"}},
		{`{"scope":"user","value":"a","for":"90"}`, "invalid_entry", []string{`"for"`, "90"}},
		{`{"scope":"user","value":"a","for":"-5m"}`, "invalid_entry", []string{"-5m"}},
		{`{"scope":"user","value":"a","for":"0"}`, "invalid_entry", []string{"for"}},
		{`{"scope":"user","value":"a","for":"forever"}`, "invalid_entry", []string{"forever"}},
		{`{"scope":"user","value":"a","for":"99999999h"}`, "invalid_entry", []string{"99999999h"}},
		{`{"scope":"user","value":"a","until":"2001-01-01T00:00:00Z"}`, "invalid_entry", []string{"until", "2001"}},
		{`{"scope":"user","value":"a","until":"2030-01-01T00:00:00"}`, "invalid_entry", []string{"until", "offset"}},
		{`{"scope":"user","value":"a","until":"tomorrow"}`, "invalid_entry", []string{"tomorrow"}},
		{`{"scope":"cidr","value":"0.0.0.0/0","permanent":true}`, "invalid_entry", []string{"0.0.0.0/0"}},
		{`{"scope":"cidr","value":"::/0","permanent":true}`, "invalid_entry", []string{"::/0"}},
		{`{"scope":"planet","value":"a","permanent":true}`, "invalid_entry", []string{"scope", "planet"}},
		{`{"value":"a","permanent":true}`, "invalid_entry", []string{"scope"}},
		{`{"scope":"user","permanent":true}`, "invalid_entry", []string{"value"}},
		{`{"scope":"addr","value":"1.2.3","permanent":true}`, "invalid_entry", []string{"value", "1.2.3"}},
		{`{"scope":"user","value":"a","permanent":true,"reason":"` + strings.Repeat("x", 513) + `"}`, "bad_request", []string{"reason"}},
		{`{"scope":"user","value":"a","permanent":true,"reason":"a\nb"}`, "bad_request", []string{"reason"}},
		{`{"scope":"user","value":"a","permanent":true,"colour":"red"}`, "bad_request", []string{"colour", "red"}},
		{`{"Scope":"user","value":"a","permanent":true}`, "bad_request", []string{"Scope"}},
		{`{"scope":"user","scope":"addr","value":"a","permanent":true}`, "bad_request", []string{"scope", "twice"}},
		{`{"scope":7,"value":"a","permanent":true}`, "bad_request", []string{"scope", "7", "text"}},
		{`{"scope":"user","value":"a","permanent":"yes"}`, "bad_request", []string{"permanent", "yes", "true or false"}},
		{`{"scope":"user","value":null,"permanent":true}`, "bad_request", []string{"value", "null"}},
		{`{"scope":"user","value":"\ud800","permanent":true}`, "bad_request", []string{"value"}},
		{`{"scope":"user","value":"a","permanent":true} {}`, "bad_request", []string{"follows"}},
		{`{"scope":"user","value":"a","permanent":true`, "bad_request", []string{"JSON"}},
		{`{"scope":"user",}`, "bad_request", []string{"JSON"}},
		{`[]`, "bad_request", []string{"object"}},
		{`"x"`, "bad_request", []string{"object"}},
		{"\xff", "bad_request", []string{"UTF-8"}},
		{``, "invalid_entry", []string{"scope"}},
	} {
		a := h.want(400, c.code, Operator, "POST", bansPath, c.body)
		for _, part := range c.told {
			if !strings.Contains(a.json["detail"].(string), part) {
				t.Errorf("%s: detail does not name %q: %v", c.body, part, a.json["detail"])
			}
		}
		if h.outcomes(a) != c.code {
			t.Errorf("%s: audit %q", c.body, h.outcomes(a))
		}
	}
	if n := len(h.bans.Entries()); n != 0 {
		t.Errorf("%d bans were made", n)
	}
}

func TestBadQueriesAreRefused(t *testing.T) {
	h := open(t)
	for _, path := range []string{
		bansPath + "?scop=user", bansPath + "?scope=user&scope=addr", bansPath + "?value=a", "/api/v1/sales?x=1",
		"/api/v1/audit?limit=0", "/api/v1/audit?limit=1001", "/api/v1/audit?limit=x", "/api/v1/audit?limit=1&limit=2",
	} {
		h.want(400, "bad_request", Viewer, "GET", path, "")
	}
	h.want(400, "invalid_entry", Viewer, "GET", "/api/v1/explain", "")
	h.want(400, "invalid_entry", Viewer, "GET", "/api/v1/explain?scope=addr&value="+url.QueryEscape("1.2.3.4/33"), "")
	h.want(400, "invalid_entry", Viewer, "GET", bansPath+"?scope=planet&value=x", "")
	h.want(400, "invalid_entry", Operator, "DELETE", bansPath, "")
	h.want(400, "bad_request", Operator, "DELETE", bansPath+"?scope=user&value=a&reason=%0a", "")
	h.want(400, "bad_request", Operator, "DELETE", bansPath+"?scope=user&value=a&force=1", "")
}

func TestABodyMustSayThatItIsJSON(t *testing.T) {
	h := open(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/problem+json"} {
		header := http.Header{"Authorization": {"Bearer " + secretOf(Operator)}, "Content-Type": {kind}}
		a := h.send("POST", bansPath, `{"scope":"user","value":"a","permanent":true}`, header)
		if a.status != 415 || a.json["code"] != "unsupported_media_type" {
			t.Errorf("%q: %d %s", kind, a.status, a.text)
		}
	}
	header := http.Header{"Authorization": {"Bearer " + secretOf(Operator)}, "Content-Type": {"application/json; charset=utf-8"}}
	if a := h.send("POST", bansPath, `{"scope":"user","value":"a","permanent":true}`, header); a.status != 201 {
		t.Errorf("with charset: %d %s", a.status, a.text)
	}
}

func TestAChangeIsRecordedBeforeAndAfter(t *testing.T) {
	h := open(t)
	a := h.want(201, "", Security, "POST", bansPath, `{"scope":"user","value":" alice ","reason":"bot","until":"2030-01-01T00:00:00+02:00"}`)
	entries := h.auditOf(a)
	if len(entries) != 2 {
		t.Fatalf("%+v", entries)
	}
	for i, outcome := range []string{"intended", "done"} {
		e := entries[i]
		if time.Since(e.At) > time.Minute {
			t.Errorf("at %s", e.At)
		}
		e.At = time.Time{}
		want := AuditEntry{Who: "the-security", Role: Security, Action: "ban.add", Target: "user:alice", Reason: "bot",
			Outcome: outcome, RequestID: a.header.Get("X-Request-Id")}
		if e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}

func TestWithoutARecordNothingIsChanged(t *testing.T) {
	h := open(t)
	h.noAudit.breakAfter(0)
	body := `{"scope":"user","value":"alice","permanent":true}`
	if a := h.want(503, "audit_unavailable", Operator, "POST", bansPath, body); a.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	h.want(503, "audit_unavailable", Viewer, "POST", bansPath, body)
	h.want(503, "audit_unavailable", Operator, "POST", bansPath, `{}`)
	h.want(503, "audit_unavailable", Operator, "POST", "/api/v1/sales/demo/preheat", "")
	if len(h.bans.Entries()) != 0 || len(h.stock.Views()) != 0 {
		t.Error("an unrecorded change was made")
	}
	h.want(200, "", Operator, "GET", bansPath, "")
	h.noAudit.broken.Store(false)
	h.want(201, "", Operator, "POST", bansPath, body)
}

func TestALostSecondEntryDoesNotHideThatTheChangeWasMade(t *testing.T) {
	h := open(t)
	h.noAudit.breakAfter(1)
	a := h.want(201, "", Operator, "POST", bansPath, `{"scope":"user","value":"alice","permanent":true}`)
	if len(h.bans.Entries()) != 1 || h.outcomes(a) != "intended" {
		t.Errorf("%d bans, audit %q", len(h.bans.Entries()), h.outcomes(a))
	}
}

func TestTheAuditLogIsNewestFirstAndLimited(t *testing.T) {
	h := open(t)
	for _, v := range []string{"a", "b", "c"} {
		h.want(201, "", Operator, "POST", bansPath, `{"scope":"user","value":"`+v+`","permanent":true}`)
	}
	entries := h.want(200, "", Viewer, "GET", "/api/v1/audit?limit=3", "").json["entries"].([]any)
	var got []string
	for _, e := range entries {
		e := e.(map[string]any)
		got = append(got, e["target"].(string)+" "+e["outcome"].(string))
	}
	if s := strings.Join(got, ", "); s != "user:c done, user:c intended, user:b done" {
		t.Error(s)
	}
}

func TestALostRedisIsA503(t *testing.T) {
	h := open(t)
	h.redis.Close()
	a := h.want(503, "blacklist_unavailable", Operator, "POST", bansPath, `{"scope":"user","value":"a","permanent":true}`)
	if strings.Contains(a.text, "closed") {
		t.Errorf("the private cause is told: %s", a.text)
	}
	if h.outcomes(a) != "intended blacklist_unavailable" {
		t.Errorf("audit %q", h.outcomes(a))
	}
}
