package main

import (
	"strings"
	"testing"
)

const levelOfTwo = `{"sale":"demo","total":100,"free":60,"reserved":10,"confirmed":30,"on_loan":0,"at":"2030-01-01T00:00:00Z","buckets":[
{"index":0,"tag":"a","planned":50,"lent_in":0,"lent_out":5,"free":30,"reserved":5,"confirmed":10},
{"index":1,"tag":"b\u001b","planned":50,"lent_in":5,"lent_out":0,"free":30,"reserved":5,"confirmed":20}]}`

func TestTheLevelIsToldWholeAndByBucket(t *testing.T) {
	api := newAdminAPI(t)
	api.answer("GET /api/v1/sales/two/level", 200, levelOfTwo)
	code, out, errOut := api.command(t, "sale", "level", "two")
	want := `SALE  TOTAL  FREE  RESERVED  CONFIRMED  ON LOAN  AT
demo  100    60    10        30         0        2030-01-01T00:00:00Z

BUCKET  TAG  PLANNED  LENT IN  LENT OUT  FREE  RESERVED  CONFIRMED
0       a    50       0        5         30    5         10
1       b?   50       5        0         30    5         20
`
	if code != exitOK || out != want {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
}

func TestTheExitStatusOfAnAuditTellsWrongFromUnknown(t *testing.T) {
	api := newAdminAPI(t)
	level := `"level":` + levelOfTwo
	api.answer("GET /api/v1/sales/good/audit", 200, `{"ok":true,"proved":true,"differences":[],`+level+`}`)
	api.answer("GET /api/v1/sales/bad/audit", 200, `{"ok":false,"proved":true,"differences":["free: 5\u001b","held: 7"],`+level+`}`)
	api.answer("GET /api/v1/sales/busy/audit", 200, `{"ok":false,"proved":false,"differences":["nothing is proved"],`+level+`}`)
	api.answer("GET /api/v1/sales/away/audit", 503, `{"title":"x","status":503,"code":"inventory_unavailable","detail":"Away."}`)
	api.answer("GET /api/v1/sales/junk/audit", 200, "OK")
	for _, c := range []struct {
		sale        string
		code        int
		out, errOut string
	}{
		{"good", 0, "good: OK. 100 units: 60 free, 10 reserved, 30 confirmed, 0 on loan\n", ""},
		{"bad", 1, "first: free: 5?\nthen: held: 7\n", "weir: the books of bad do not agree: 2 differences\n"},
		{"busy", 2, "first: nothing is proved\n", "weir: the books of busy could not be proved\n"},
		{"away", 2, "", "weir: Away. (inventory_unavailable, 503)\n"},
		{"junk", 2, "", "weir: reading the answer: "},
		{"no id", 2, "", "weir: (no id) is no id of a sale"},
	} {
		code, out, errOut := api.command(t, "sale", "audit", c.sale)
		if code != c.code || out != c.out || !strings.HasPrefix(errOut, c.errOut) || c.errOut == "" && errOut != "" {
			t.Errorf("%s: %d\n%s%s", c.sale, code, out, errOut)
		}
	}
	if code, out, _ := api.command(t, "sale", "audit", "bad", "--json"); code != 1 || !strings.Contains(out, `"proved": true`) {
		t.Errorf("as JSON: %d %s", code, out)
	}
	if code, _, errOut := command(t, nil, "sale", "audit", "good", "--admin", "127.0.0.1:1"); code != 2 || !strings.Contains(errOut, "no admin token") {
		t.Errorf("without a token: %d %s", code, errOut)
	}
}

func TestTheLedgerIsAskedByUserOrderOrReservation(t *testing.T) {
	api := newAdminAPI(t)
	row := `{"reservation":"r1","kind":"loan","user":"ann\u001b","item":"i","quantity":2,"state":"confirmed","reserved_at":"2030-01-01T00:00:00Z","expires_at":null,"order":"A 1"}`
	api.answer("GET /api/v1/sales/demo/ledger", 200, `{"rows":[`+row+`],"next":"","complete":true}`)
	api.answer("GET /api/v1/sales/more/ledger", 200, `{"rows":[`+strings.Replace(row, `"2030-01-01T00:00:00Z"`, "null", 1)+`],"next":"5.r1","complete":true}`)
	api.answer("GET /api/v1/sales/long/ledger", 200, `{"rows":[],"next":"","complete":false}`)
	for _, c := range []struct{ args, asked string }{
		{"", ""}, {"--user a&b", "?user=a%26b"}, {"--order A-1", "?order=A-1"}, {"--reservation r1", "?reservation=r1"},
		{"--state reserved --limit 5 --cursor 5.r", "?cursor=5.r&limit=5&state=reserved"},
	} {
		code, out, errOut := api.command(t, append([]string{"sale", "ledger", "demo"}, strings.Fields(c.args)...)...)
		if code != exitOK || api.asked != "GET /api/v1/sales/demo/ledger"+c.asked ||
			!strings.HasSuffix(out, "2030-01-01T00:00:00Z  r1           ann?  loan  2      confirmed  A 1\n") {
			t.Errorf("%s: %d %s\n%s%s", c.args, code, api.asked, out, errOut)
		}
	}
	if code, out, errOut := api.command(t, "sale", "ledger", "more"); code != exitOK || errOut != "weir: there are more: --cursor 5.r1\n" || !strings.Contains(out, "\nnever") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if code, _, errOut := api.command(t, "sale", "ledger", "long"); code != exitError || !strings.Contains(errOut, "rows are missing") {
		t.Errorf("%d %s", code, errOut)
	}
	for _, args := range []string{"--user a --order b", "--user=", "--state=", "--cursor=", "--limit 0", "--limit 1001", "--state sold", "--limit x"} {
		if code, _, errOut := api.command(t, append([]string{"sale", "ledger", "demo"}, strings.Fields(args)...)...); code != exitUsage || strings.Contains(errOut, "strconv") {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
}

func TestReconcilePrintsEachDifferenceWithItsRemedy(t *testing.T) {
	api := newAdminAPI(t)
	report := func(differences string) string {
		return `{"sale":"demo","checked":{"ledger":3,"archive":2,"shop":1},"listed":true,"differences":[` + differences + `]}`
	}
	left := `{"reservation":"r1","kind":"only_shop","ledger":"","archive":"","shop":"confirmed","remedy":"refund o-1","applied":false,"error":"the sale is full"}`
	done := `{"reservation":"r2","kind":"not_archived","ledger":"confirmed","archive":"","shop":"confirmed","remedy":"archive it","applied":true,"error":""}`
	api.answer("POST /api/v1/sales/clean/reconcile", 200, report(""))
	api.answer("POST /api/v1/sales/fixed/reconcile", 200, report(done))
	api.answer("POST /api/v1/sales/open/reconcile", 200, report(left+","+done))
	api.answer("POST /api/v1/sales/mute/reconcile", 200, `{"sale":"demo","checked":{"ledger":3},"asked":3,"unanswered":1,"differences":[]}`)
	api.answer("POST /api/v1/sales/gone/reconcile", 200, `{"sale":"demo","checked":{"ledger":3},"ledger_gone":true,"differences":[]}`)
	api.answer("POST /api/v1/sales/none/reconcile", 501, `{"title":"x","status":501,"code":"not_configured","detail":"Nothing."}`)
	file := write(t, "\xef\xbb\xbfreservation,order,user,quantity,state\r\nr1,\"o,1\",,2,confirmed\r\n", 0o600)
	const orders = `,"orders":[{"reservation":"r1","order":"o,1","user":"","quantity":2,"state":"confirmed"}]}`
	for _, c := range []struct {
		args, asked string
		code        int
		out, errOut string
	}{
		{"clean", `{"apply":false}`, 0, "compared: 3 in the ledger, 2 in the archive, 1 of the shop; 0 differences\n", ""},
		{"mute", `{"apply":false}`, 0, "compared: 3 in the ledger, 0 in the archive; the shop has no list and was asked about 3, 1 of them without an answer; 0 differences\n", ""},
		{"gone", `{"apply":false}`, 0, "compared: 3 in the archive (the ledger is deleted); the shop was not asked; 0 differences\n", ""},
		{"fixed --apply", `{"apply":true}`, 0, "r2           not_archived  confirmed  -        confirmed  archive it  yes\n", ""},
		{"open --orders " + file, `{"apply":false` + orders, 1, "r1           only_shop     -          -        confirmed  refund o-1  no: the sale is full\n", "weir: sale demo: 1 difference left\n"},
		{"open --json", `{"apply":false}`, 1, `"remedy": "refund o-1"`, "weir: sale demo: 1 difference left\n"},
		{"none", `{"apply":false}`, 1, "", "weir: Nothing. (not_configured, 501)\n"},
	} {
		code, out, errOut := api.command(t, append([]string{"sale", "reconcile"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.HasSuffix(api.asked, "/reconcile "+c.asked) || !strings.Contains(out, c.out) || errOut != c.errOut {
			t.Errorf("%s: %d %s\n%s%s", c.args, code, api.asked, out, errOut)
		}
	}
}

func TestAFileOfOrdersWithAFaultIsNotSent(t *testing.T) {
	api := newAdminAPI(t)
	const header = "reservation,order,user,quantity,state\n"
	for name, c := range map[string]struct{ csv, told string }{
		"empty":        {"", ":1: () is no header"},
		"header":       {"reservation,order,user,state,quantity\n", ":1: (reservation,order,user,state,quantity) is no header"},
		"quantity":     {header + "a,,,1,reserved\nb,,,1.5,reserved\n", ":3: quantity (1.5): is no whole number"},
		"zero":         {header + "a,,,0,reserved\n", ":2: quantity (0): "},
		"state":        {header + "a,,,1,paid\n", ":2: state (paid): is none of reserved, "},
		"no id":        {header + ",,,1,reserved\n", ":2: reservation (): "},
		"twice":        {header + "a,,,1,reserved\n\"b\nc\",,,1,reserved\na,,,2,reserved\n", ":5: reservation (a): stands in line 2 too"},
		"fields":       {header + "a,,1,reserved\n", ":2: has 4 fields, right is 5"},
		"quotes":       {header + "a,\"x\"y,,1,reserved\n", ":2: extraneous or missing"},
		"not UTF-8":    {header + "a\xff,,,1,reserved\n", ": is not UTF-8"},
		"two at once":  {header + "a,,,x,y\n", ":2: state (y)"},
		"too many":     {header + strings.Repeat("a,,,1,reserved\n", 99), ":33: reservation (a)"},
		"no such file": {"", "cannot be read: no such file or directory"},
	} {
		file := "no/such"
		if name != "no such file" {
			file = write(t, c.csv, 0o600)
		}
		code, out, errOut := api.command(t, "sale", "reconcile", "demo", "--orders", file)
		if code != exitError || out != "" || !strings.Contains(errOut, "--orders "+file) || !strings.Contains(errOut, c.told) || api.asked != "" {
			t.Errorf("%s: %d %s\n%s", name, code, api.asked, errOut)
		}
		if n := strings.Count(errOut, "\n"); n > mostCSVFaults+1 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

func TestAFileOfOrdersHasABound(t *testing.T) {
	api := newAdminAPI(t)
	api.answer("POST /api/v1/sales/demo/reconcile", 200, `{"sale":"demo","differences":[]}`)
	var b strings.Builder
	b.WriteString("reservation,order,user,quantity,state\n")
	line := func(i int) { b.WriteString("r" + decimal(int64(i)) + ",,,1,reserved\n") }
	for i := range 200_000 {
		line(i)
	}
	if code, _, errOut := api.command(t, "sale", "reconcile", "demo", "--orders", write(t, b.String(), 0o600)); code != exitOK || len(api.asked) < 200_000 {
		t.Errorf("%d %s", code, errOut)
	}
	line(200_000)
	if code, _, errOut := api.command(t, "sale", "reconcile", "demo", "--orders", write(t, b.String(), 0o600)); code != exitError || !strings.Contains(errOut, "more than 200000 orders") {
		t.Errorf("%d %s", code, errOut)
	}
}
