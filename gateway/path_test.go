package gateway

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"weir/internal/problem"
)

func TestOnePathHasOneSpelling(t *testing.T) {
	for target, want := range map[string]string{
		"/":                      "/",
		"/buy/1001":              "/buy/1001",
		"/buy/%31001":            "/buy/1001",
		"/%62uy/1001":            "/buy/1001",
		"/buy/":                  "/buy/",
		"/a%20b":                 "/a%20b",
		"/a%c3%a9":               "/a%C3%A9",
		"/x?a=1;b=2&c=%2F&e=%zz": "/x",
	} {
		got, _, ok := canonicalPath(target)
		if !ok || got != want {
			t.Errorf("%s: got %q %v, want %q", target, got, ok, want)
		}
	}
}

func TestATargetWithTwoReadingsIsRefused(t *testing.T) {
	for _, target := range []string{
		"", "*", "buy/1001", "http://shop/buy/1001", "//buy/1001", "/buy//1001", "/./buy", "/buy/../admin", "/buy/%2e%2e/x", "/buy/%2e/x",
		"/buy/1001%2f", "/buy%5c1001", "/buy\\1001", "/buy/%00", "/buy/%0a", "/buy/%7f", "/buy/%25", "/buy/%", "/buy/%3", "/buy/%zz",
		"/buy/é", "/buy/1 2", "/buy#x", "/buy/<x>", "/x?a b", "/x?é", "/x?a#b",
	} {
		if got, _, ok := canonicalPath(target); ok {
			t.Errorf("%q was taken as %q", target, got)
		}
	}
}

func FuzzCanonicalPath(f *testing.F) {
	for _, s := range []string{"/buy/%31", "/%2e%2E/x", "/a//b", "/?%", "/%C3%A9", "/a/./b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, query, ok := canonicalPath(target)
		if !ok {
			return
		}
		if again, _, ok := canonicalPath(path); !ok || again != path {
			t.Fatalf("%q is not its own canonical form: %q", path, again)
		}
		if strings.Contains(path, "//") || strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") {
			t.Fatalf("%q kept a second reading", path)
		}
		if !strings.HasSuffix(target, query) {
			t.Fatalf("the query %q is not the client's", query)
		}
	})
}

func TestItemIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"1001": true, "a": true, "A.b_c-9": true, strings.Repeat("x", 64): true,
		"": false, ".a": false, "-1": false, "_": false, "a/b": false, "a~": false, "é": false, "1;v=2": false, "+1": false, strings.Repeat("x", 65): false,
	} {
		if got := validItem(id); got != want {
			t.Errorf("%q: got %v", id, got)
		}
	}
}

func TestRoutesMatchWholeSegments(t *testing.T) {
	routes, err := compileRoutes([]RouteConfig{
		{Name: "buy", Path: "/buy/{item}", Kind: Buy, Methods: []string{"POST"}},
		{Name: "root", Path: "/", Kind: Proxy, Methods: []string{"GET"}},
		{Name: "rest", Path: "/{rest...}", Kind: Proxy, Methods: []string{"GET"}},
		{Name: "deep", Path: "/shop/{part}/x/{item}", Kind: Buy, Methods: []string{"POST"}},
	}, "/_weir")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		route int
		path  string
		item  string
		ok    bool
	}{
		{0, "/buy/1001", "1001", true}, {0, "/buy", "", false}, {0, "/buy/", "", false}, {0, "/buy/1/2", "", false}, {0, "/buyer/1", "", false}, {0, "/buy/1/", "", false},
		{1, "/", "", true}, {1, "/x", "", false},
		{2, "/", "", true}, {2, "/a/b/c", "", true},
		{3, "/shop/a/x/7", "7", true}, {3, "/shop//x/7", "", false},
	} {
		item, ok := routes[c.route].match(c.path)
		if ok != c.ok || ok && item != c.item {
			t.Errorf("%s on %s: got %q %v", c.path, routes[c.route].cfg.Path, item, ok)
		}
	}
}

func TestARouteTableIsRefusedWithItsFaults(t *testing.T) {
	for path, want := range map[string]string{
		"buy/{item}":     "must start with /",
		"/_weir/x":       "lies under",
		"/buy/{item":     "bad parameter",
		"/{a...}/b":      "bad parameter",
		"/buy":           "needs {item} once",
		"/{item}/{item}": "needs {item} once",
	} {
		_, err := compileRoutes([]RouteConfig{{Name: "r", Path: path, Kind: Buy}}, "/_weir")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestRetryAfterIsRoundedUpAndSpread(t *testing.T) {
	if got := retrySeconds(0, 7); got != 0 {
		t.Errorf("no wait became %d s", got)
	}
	seen := map[int]bool{}
	for r := range uint32(100) {
		got := retrySeconds(1100e6, r)
		if got < 2 || got > 3 {
			t.Fatalf("1.1 s became %d s", got)
		}
		seen[got] = true
	}
	if len(seen) != 2 {
		t.Errorf("callers come back together: %v", seen)
	}
}

func TestEveryOutcomeHasItsRow(t *testing.T) {
	codes := map[string]bool{}
	for k := Forwarded; k < kinds; k++ {
		r := table[k]
		if r.code == "" || r.title == "" || (r.status < 200 && k != ShopRefused) {
			t.Errorf("outcome %d has no full row: %+v", k, r)
		}
		if codes[k.label()] && k != SharedLimited {
			t.Errorf("the metric label %s is used twice", k.label())
		}
		codes[k.label()] = true
		if (r.status == 429 || r.status == 503) && r.retry == 0 {
			t.Errorf("%s: %d without Retry-After", r.code, r.status)
		}
	}
}

func TestAPlainRefusalReadsLikeAnyOther(t *testing.T) {
	plain := newPlainBodies()
	for k := Forwarded; k < kinds; k++ {
		for _, retry := range []int{0, 7} {
			r := table[k]
			var want, got map[string]any
			p := problem.Problem{Title: r.title, Status: r.status, Code: r.code, Detail: r.detail, RequestID: "0a1b", RetryAfter: retry}
			if err := json.Unmarshal(p.JSON(), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(plain.body(k, "0a1b", retry), &got); err != nil {
				t.Fatalf("%s: %v", r.code, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", r.code, got, want)
			}
		}
	}
}
