package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/blacklist"
	"weir/gateway/admin"
	"weir/inventory"
)

// typed runs a verb with something on its standard input.
func (api *adminAPI) typed(t *testing.T, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return typed(t, in, api.Listener.Addr().String(), args...)
}

func typed(t *testing.T, in, at string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	code = run(t.Context(), append(args, "--admin", at), envOf(map[string]string{"WEIR_ADMIN_TOKEN": loud}), strings.NewReader(in), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestPlansAreSentFromFilesAndStandardInput(t *testing.T) {
	api := newAdminAPI(t)
	api.answer("POST /api/v1/sales", 201, demoJSON)
	api.answer("PUT /api/v1/sales/demo", 200, demoJSON)
	api.answer("DELETE /api/v1/sales/demo", 200, `{"deleted":true}`)
	file := write(t, "{\"id\":\n \"demo\"}\n", 0o600)
	for _, c := range []struct{ in, args, asked, match, out string }{
		{"", "create -f " + file, `POST /api/v1/sales {"id":"demo"}`, "", "planned in    the configuration file\n"},
		{`{"a":1}`, "create -f -", `POST /api/v1/sales {"a":1}`, "", "state         running\n"},
		{"", "edit demo -f " + file, `PUT /api/v1/sales/demo {"id":"demo"}`, `"v1-abc"`, "version       1\n"},
		{"", "edit demo -f " + file + " --if-match v3-f", `PUT /api/v1/sales/demo {"id":"demo"}`, `"v3-f"`, ""},
		{"", "edit demo -f " + file + ` --if-match "v3-f"`, `PUT /api/v1/sales/demo {"id":"demo"}`, `"v3-f"`, ""},
		{"{}", "edit demo -f - --if-match * --json", `PUT /api/v1/sales/demo {}`, "*", `"item": "1001"`},
		{"", "delete demo", "DELETE /api/v1/sales/demo", `"v1-abc"`, "deleted: demo\n"},
		{"", "delete demo --reason x&y", "DELETE /api/v1/sales/demo?reason=x%26y", `"v1-abc"`, "deleted: demo\n"},
	} {
		code, out, errOut := api.typed(t, c.in, append([]string{"sale"}, strings.Fields(c.args)...)...)
		if code != exitOK || api.asked != c.asked || api.match != c.match || !strings.Contains(out, c.out) {
			t.Errorf("%s: %d %s %s\n%s%s", c.args, code, api.asked, api.match, out, errOut)
		}
	}
}

func TestPlansThatCannotBeReadAreNotSent(t *testing.T) {
	api := newAdminAPI(t)
	for _, c := range []struct {
		in, args, told string
		code           int
	}{
		{"", "create", "a plan is needed: -f FILE", exitUsage},
		{"", "edit demo", "a plan is needed: -f FILE", exitUsage},
		{"", "edit -f x", "accepts 1 arg(s)", exitUsage},
		{"{}", "edit a/b -f -", "(a/b) is no id of a sale", exitUsage},
		{"", "create -f no/such", "-f no/such cannot be read: no such file or directory", exitError},
		{"{\n\"a\":1,\n}", "create -f -", "-f -:3: is no JSON: ", exitError},
		{"[]", "create -f -", "-f -: is no JSON object", exitError},
		{"null", "create -f -", "-f -: is no JSON object", exitError},
		{"", "create -f -", "-f -:1: is no JSON: ", exitError},
		{`{"a":"` + strings.Repeat("x", maxPlan) + `"}`, "create -f -", "-f - is larger than 64 KiB", exitError},
	} {
		code, out, errOut := api.typed(t, c.in, append([]string{"sale"}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.HasPrefix(errOut, "weir: "+c.told) || api.asked != "" {
			t.Errorf("%s: %d %s\n%s%s", c.args, code, api.asked, out, errOut)
		}
	}
}

// adminOn is the real private API on an empty Redis, with one sale in the file.
func adminOn(t *testing.T) (address string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	stock, err := inventory.New(inventory.Config{Redis: client, Memory: true, Replica: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	bans, err := blacklist.New(blacklist.Config{Redis: client})
	if err != nil {
		t.Fatal(err)
	}
	file := demoSale().Plan(time.Now())
	console, err := admin.New(admin.Config{Tokens: []admin.Token{{Name: "me", Role: admin.Operator, Secret: loud}}},
		admin.Deps{Stock: stock, Bans: bans, Redis: client, Planned: func() []inventory.Sale { return []inventory.Sale{file} }})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- console.Run(t.Context(), ln) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestASaleIsWorkedOnFromTheCommandLine(t *testing.T) {
	at := adminOn(t)
	plan := filepath.Join(t.TempDir(), "plan.json")
	sale := func(want int, in, args string) (out, errOut string) {
		t.Helper()
		code, out, errOut := typed(t, in, at, append([]string{"sale"}, strings.Fields(args)...)...)
		if code != want {
			t.Fatalf("sale %s: exit %d, want %d\n%s%s", args, code, want, out, errOut)
		}
		return out, errOut
	}
	has := func(text, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	out, _ := sale(exitOK, planExample, "create -f -") // the example of the help is one
	has(out, "state         draft\n")
	has(out, "planned in    the API\n")
	out, _ = sale(exitOK, "", "show spring --plan")
	if err := os.WriteFile(plan, []byte(strings.Replace(out, `"total": 1000`, `"total": 500`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ = sale(exitOK, "", "edit spring -f "+plan)
	has(out, "version       2\n")
	has(out, "total         500\n")
	has(out, "etag          v2-")
	sale(exitUsage, "", "edit spring -f "+plan+" --if-match=")
	_, errOut := sale(exitError, "", "edit spring -f "+plan+" --if-match v9-0")
	has(errOut, `Its ETag now is "v2-`)
	_, errOut = sale(exitError, `{"id":"spring","total":-1,"colour":"red"}`, "edit spring -f -")
	has(errOut, "weir: total (-1): must be a whole number from 1 to 1000000000\n")
	has(errOut, "weir: colour (\"red\"): is unknown; known are id, item,")
	has(errOut, "weir: item: is missing\n")
	_, errOut = sale(exitError, "", "edit demo -f "+plan)
	has(errOut, "in_config_file")
	sale(exitOK, "", "preheat spring")
	out, _ = sale(exitOK, "", "edit spring -f "+plan)
	has(out, "preheated     version 2\n")
	out, _ = sale(exitOK, "", "list")
	has(out, "spring  3        1002  pending")
	_, errOut = sale(exitError, "", "delete spring")
	has(errOut, "sale_preheated")
	out, _ = sale(exitOK, "", "audit spring")
	has(out, "spring: OK. 500 units: 500 free")
	sale(exitOK, "", "ledger spring --user ann")
	_, errOut = sale(exitError, "", "reconcile spring")
	has(errOut, "not_configured")
	sale(exitOK, strings.Replace(planExample, "spring", "summer", 1), "create -f -")
	out, _ = sale(exitOK, "", "delete summer")
	has(out, "deleted: summer\n")
	sale(exitUnproved, "", "audit summer")
}
