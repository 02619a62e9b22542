package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

const demoJSON = `{"id":"demo","version":1,"item":"1001","state":"running","starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z","total":100,
"safety_stock":0,"bucket_cap":0,"buyer_limit":1,"max_quantity":1,"hold":"2m0s","expiry":"ask","settle":"accept","in_config_file":true,"preheated":true,"preheated_version":1,"generation":3,"sold_out":false}`

const banJSON = `{"scope":"user","value":"u 1\u001b[31m","reason":"cards","author":"env","origin":"api","created":"2030-01-01T00:00:00Z","until":null,"seq":7}`

// adminAPI speaks the private API and keeps what it was asked.
type adminAPI struct {
	*httptest.Server
	mux   *http.ServeMux
	asked string // method, path, body
	match string // If-Match
}

func newAdminAPI(t *testing.T) *adminAPI {
	t.Helper()
	api := &adminAPI{mux: http.NewServeMux()}
	answer := api.answer
	answer("GET /api/v1/sales", 200, `{"sales":[`+demoJSON+`]}`)
	answer("GET /api/v1/sales/demo", 200, demoJSON)
	answer("GET /api/v1/sales/demo/level", 200, `{"sale":"demo","total":100,"free":60,"reserved":10,"confirmed":30,"on_loan":0,"seq":5,"at":"2030-01-01T00:00:00Z"}`)
	for _, verb := range []string{"preheat", "pause", "resume", "cancel"} {
		answer("POST /api/v1/sales/demo/"+verb, 200, demoJSON)
	}
	answer("POST /api/v1/sales/old/preheat", 409, `{"title":"Conflict","status":409,"code":"sale_started","detail":"The sale has started."}`)
	answer("GET /api/v1/sales/huge", 200, strings.Repeat(" ", maxAnswer+1))
	answer("GET /api/v1/sales/html", 502, "<html>bad gateway</html>")
	answer("GET /api/v1/sales/moved", 302, "")
	answer("GET /api/v1/sales/junk", 200, "OK")
	answer("GET /api/v1/bans", 200, `{"bans":[`+banJSON+`]}`)
	answer("POST /api/v1/bans", 201, banJSON)
	answer("DELETE /api/v1/bans", 200, `{"removed":true,"ban":`+banJSON+`}`)
	api.Server = httptest.NewServer(api.mux)
	t.Cleanup(api.Close)
	return api
}

// answer makes the API say body to a request, with an ETag.
func (api *adminAPI) answer(pattern string, status int, body string) {
	api.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		api.asked, api.match = strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(in)), r.Header.Get("If-Match")
		status, body := status, body
		switch {
		case r.Header.Get("Authorization") != "Bearer "+loud:
			w.Header().Set("WWW-Authenticate", "Bearer")
			status, body = 401, `{"type":"about:blank","title":"Unauthorized","status":401,"code":"unauthorized","detail":"No valid token."}`
		case len(in) > 0 && r.Header.Get("Content-Type") != "application/json":
			status, body = 415, `{"title":"no","status":415,"code":"unsupported_media_type"}`
		}
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.Header().Set("ETag", `"v1-abc"`)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

func (api *adminAPI) command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, map[string]string{"WEIR_ADMIN_TOKEN": loud}, append(args, "--admin", api.Listener.Addr().String())...)
}

func TestEachVerbAsksItsRouteAndPrintsTheAnswer(t *testing.T) {
	api := newAdminAPI(t)
	for _, tc := range []struct{ verb, asked, out string }{
		{"sale list", "GET /api/v1/sales", "ID    VERSION  ITEM  STATE    STARTS                ENDS                  TOTAL  PREHEATED  SOLD OUT\ndemo  1        1001  running  2030-01-01T00:00:00Z  2030-01-02T00:00:00Z  100    yes        no\n"},
		{"sale show demo", "GET /api/v1/sales/demo", "bucket cap    none\n"},
		{"sale level demo", "GET /api/v1/sales/demo/level", "SALE  TOTAL  FREE  RESERVED  CONFIRMED  ON LOAN  AT\ndemo  100    60    10        30         0        2030-01-01T00:00:00Z\n"},
		{"sale preheat demo", "POST /api/v1/sales/demo/preheat", "preheated     yes\n"},
		{"sale pause demo", "POST /api/v1/sales/demo/pause", "state         running\n"},
		{"sale pause demo --reason loud", `POST /api/v1/sales/demo/pause {"reason":"loud"}`, "state         running\n"},
		{"sale resume demo", "POST /api/v1/sales/demo/resume", "hold          2m0s\n"},
		{"sale cancel demo", "POST /api/v1/sales/demo/cancel", "generation    3\n"},
		{"ban list", "GET /api/v1/bans", "user   u 1?[31m  removed  env     api     2030-01-01T00:00:00Z  cards\n"},
		{"ban list --scope user --value a&b", "GET /api/v1/bans?scope=user&value=a%26b", "SCOPE  VALUE"},
		{"ban remove cidr 10.0.0.0/8", "DELETE /api/v1/bans?scope=cidr&value=10.0.0.0%2F8", "lifted: user u 1?[31m\n"},
		{"ban add user u --reason cards --for 30d", `POST /api/v1/bans {"scope":"user","value":"u","reason":"cards","for":"720h0m0s"}`, "banned: user u 1?[31m, until removed, because cards\n"},
		{"ban add addr ::1 --reason x --until 2030-01-01T00:00:00+08:00", `POST /api/v1/bans {"scope":"addr","value":"::1","reason":"x","until":"2030-01-01T00:00:00+08:00"}`, "banned: "},
		{"ban add device d --reason x --permanent", `POST /api/v1/bans {"scope":"device","value":"d","reason":"x","permanent":true}`, "banned: "},
	} {
		code, out, errOut := api.command(t, strings.Fields(tc.verb)...)
		if code != exitOK || api.asked != tc.asked || !strings.Contains(out, tc.out) {
			t.Errorf("%s: exit %d, asked %s\n%s%s", tc.verb, code, api.asked, out, errOut)
		}
	}
}

func TestASaleThatWeirItselfPausedSaysWhyAndWhatToDo(t *testing.T) {
	api := newAdminAPI(t)
	paused := strings.Replace(demoJSON, `"id"`, `"reason":"changes are missing","etag":"\"v1-abc\"","id"`, 1)
	api.answer("GET /api/v1/sales/held", 200, paused)
	_, out, _ := api.command(t, "sale", "show", "held")
	for _, line := range []string{"paused because  changes are missing\n", "what to do      weir sale reconcile demo, then weir sale resume demo\n", "etag            v1-abc\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	var errOut strings.Builder
	if err := printSales(&app{out: io.Discard, errOut: &errOut}, []byte(`{"sales":[`+paused+`,`+demoJSON+`]}`)); err != nil ||
		errOut.String() != "weir: demo was paused by weir itself: changes are missing; see: weir sale reconcile demo\n" {
		t.Errorf("%q %v", errOut.String(), err)
	}
}

func TestJSONIsTheAnswerOfTheAPI(t *testing.T) {
	api := newAdminAPI(t)
	for _, verb := range []string{"sale show demo", "sale level demo", "sale list", "ban list", "ban add user u --reason r --permanent", "ban remove user u"} {
		code, out, errOut := api.command(t, append(strings.Fields(verb), "--json")...)
		if code != exitOK || !json.Valid([]byte(out)) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: %d %s%s", verb, code, out, errOut)
		}
	}
}

func TestRefusalsAndBadAnswersAreOneLine(t *testing.T) {
	api := newAdminAPI(t)
	for sale, want := range map[string]string{
		"html":  "the answer is 502 Bad Gateway and no problem that weir would send; is that address weir's private one?",
		"moved": "the answer is 302 Found and no problem that weir would send; is that address weir's private one?",
		"gone":  "the answer is 404 Not Found and no problem",
		"junk":  "reading the answer: ",
		"huge":  "the answer is larger than 64 MiB; ask for less",
	} {
		code, out, errOut := api.command(t, "sale", "show", sale)
		if code != exitError || out != "" || !strings.HasPrefix(errOut, "weir: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: %d\n%s", sale, code, errOut)
		}
	}
	if code, _, errOut := api.command(t, "sale", "preheat", "old"); code != exitError || errOut != "weir: The sale has started. (sale_started, 409)\n" {
		t.Errorf("%d %q", code, errOut)
	}
}

func TestTheTokenComesFromTheFileOrTheVariable(t *testing.T) {
	api := newAdminAPI(t)
	token, other := write(t, loud+"\n", 0o600), write(t, "another token", 0o600)
	at := "--admin=" + api.URL
	for _, tc := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, []string{"--token-file", token}, ""},
		{map[string]string{"WEIR_ADMIN_TOKEN": "x"}, []string{"--token-file", token}, ""},
		{map[string]string{"WEIR_ADMIN_TOKEN": loud}, []string{"--token-file", other}, "weir: No valid token. (unauthorized, 401)\n"},
		{map[string]string{"WEIR_ADMIN_TOKEN": "x"}, nil, "weir: No valid token. (unauthorized, 401)\n"},
		{nil, nil, "weir: no admin token; set WEIR_ADMIN_TOKEN or give --token-file (with the sample shop, weir prints a token when it starts)\n"},
		{nil, []string{"--token-file", "no/such"}, "weir: --token-file no/such cannot be read: no such file or directory\n"},
	} {
		_, _, errOut := command(t, tc.env, append([]string{"ban", "list", at}, tc.args...)...)
		if errOut != tc.want {
			t.Errorf("%v %v: %q", tc.env, tc.args, errOut)
		}
	}
}

func TestTheAddressComesFromTheConfiguration(t *testing.T) {
	api := newAdminAPI(t)
	_, port, _ := net.SplitHostPort(api.Listener.Addr().String())
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(fmt.Sprintf("admin: {address: \":%s\"}", port)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := command(t, map[string]string{"WEIR_ADMIN_TOKEN": loud}, "ban", "list"); code != exitOK {
		t.Errorf("%d %s%s", code, out, errOut)
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	code, _, errOut := command(t, map[string]string{"WEIR_ADMIN_TOKEN": loud}, "sale", "list", "--admin", at)
	if code != exitError || errOut != "weir: no weir answers at http://"+at+"; is it running? (weir serve)\n" {
		t.Errorf("%d %q", code, errOut)
	}
}

func TestAddressesOfAListenerBecomeURLs(t *testing.T) {
	for in, want := range map[string]string{
		":9090": "http://127.0.0.1:9090", "0.0.0.0:9090": "http://127.0.0.1:9090", "[::]:9090": "http://127.0.0.1:9090", "[::1]:9090": "http://[::1]:9090",
		"host:1": "http://host:1", "https://weir.example": "https://weir.example", "http://h:1/": "http://h:1",
	} {
		if got, err := adminURL(in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "host", "ftp://x", "http://", "http://u:p@h", "http://h/path", "h:99999"} {
		if got, err := adminURL(in); err == nil {
			t.Errorf("%s became %s", in, got)
		}
	}
}
