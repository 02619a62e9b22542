package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/internal/redisd"
)

// TestLimits_AreShownWithWhoMeetsThemMost: by the API, the command and metrics.
func TestLimits_AreShownWithWhoMeetsThemMost(t *testing.T) {
	c := quiet(t, redisd.ModeMemory)
	c.Limits.User = Default().Limits.User
	c.Limits.User.Mode = "enforce"
	c.Limits.Address = Default().Limits.Address
	c.Limits.Address.Rate, c.Limits.Address.Burst, c.Limits.Address.Mode = 0.001, 2, "shadow"
	w := boot(t, c)
	if code, out := w.weirSays("limits", "top"); code != exitOK || !strings.Contains(out, "nobody was refused of late") {
		t.Fatalf("%d\n%s", code, out)
	}
	bot := w.person("bot-7")
	for range 5 {
		bot.must("GET", "/", nil)
	}
	for range 30 {
		bot.must("POST", "/buy/1001", nil)
	}
	code, out := w.weirSays("limits", "show")
	for _, words := range [][]string{{"user", "enforce", "cluster", "2/s"}, {"address", "shadow", "0.001/s"}, {"item", "off"}, {"cluster", "off"}} {
		if !hasLine(out, words...) {
			t.Errorf("%d: no line says %v:\n%s", code, words, out)
		}
	}
	code, out = w.weirSays("limits", "top", "--most", "1")
	if code != exitOK || !hasLine(out, "user", "bot-7") || !hasLine(out, "address", bot.addr) {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := w.weirSays("limits", "top", "--most", "101"); code != exitUsage || !strings.Contains(out, "--most: (101) is no such number, right is 1 to 100") {
		t.Errorf("%d\n%s", code, out)
	}
	if r := w.op("GET", "/api/v1/limits?top=x", nil); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), `\"top\": value \"x\" is not a number from 0 to 100`) {
		t.Errorf("%s", r)
	}
	for name, want := range map[string]bool{
		`weir_limit_decisions_total decision="shadow-refused",layer="address"`: true, `weir_limit_evicted_total layer="user"`: false,
		`weir_limit_overflowed_total layer="user"`: false, `weir_limit_in_flight layer="item"`: false,
	} {
		metric, labels, _ := strings.Cut(name, " ")
		if n := w.figure(metric, "{"+labels+"}"); (n > 0) != want {
			t.Errorf("%s is %v", name, n)
		}
	}
}

// TestLimits_SingleKeysHaveNumbersOfTheirOwn: an office's address, and two users.
func TestLimits_SingleKeysHaveNumbersOfTheirOwn(t *testing.T) {
	c := quiet(t, redisd.ModeMemory)
	c.Limits.Address = Default().Limits.Address
	c.Limits.Address.Rate, c.Limits.Address.Burst = 0.001, 2
	c.Limits.User = Default().Limits.User
	c.Limits.User.Scope = "replica"
	c.Limits.User.Rate, c.Limits.User.Burst = 0.001, 1
	c.Limits.Except = []LimitException{
		{Layer: "address", Key: "198.51.100.7", Rate: 0.001, Burst: 6, Mode: "enforce"},
		{Layer: "address", Key: "2001:db8:7::1", Mode: "off"},
		{Layer: "user", Key: "press", Rate: 0.001, Burst: 4, Mode: "enforce"},
	}
	w := boot(t, c)
	passed := func(addr, user, method, path string) (n int) {
		p := w.person(user)
		p.addr = addr
		for range 9 {
			if p.must(method, path, nil).status != http.StatusTooManyRequests {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		addr string
		want int
	}{{"198.51.100.8", 2}, {"198.51.100.7", 6}, {"2001:db8:7::99", 9}, {"2001:db8:8::99", 2}} {
		if n := passed(c.addr, "anybody", "GET", "/"); n != c.want {
			t.Errorf("%s: %d of 9 passed, want %d", c.addr, n, c.want)
		}
	}
	for user, want := range map[string]int{"press": 4, "ann": 1} {
		if n := passed("2001:db8:7::99", user, "POST", "/buy/1001"); n != want {
			t.Errorf("%s: %d of 9 passed, want %d", user, n, want)
		}
	}
}

func TestLimits_FaultsOfExceptionsNameThem(t *testing.T) {
	c := Default()
	c.Limits.Except = []LimitException{
		{Layer: "cluster", Key: "x", Rate: 1, Burst: 1, Mode: "enforce"},
		{Layer: "address", Key: "office", Rate: 1, Burst: 1, Mode: "enforce"},
		{Layer: "network", Key: "203.0.113.0/25", Rate: 1, Burst: 1, Mode: "enforce"},
		{Layer: "user", Key: "ann", Rate: 1, Mode: "enforce"},
		{Layer: "user", Key: "ann", Rate: 1, Burst: 1, Concurrency: 1, Mode: "shadow"},
		{Layer: "item", Key: "1001", Mode: "enforce"},
	}
	said := fmt.Sprint(c.Validate())
	for _, words := range []string{
		"limits.except[0].layer: (cluster) has no exceptions", "limits.except[1].key: (office) is no address",
		"limits.except[2].key: (203.0.113.0/25) is no network", "limits.except[3].burst", "limits.except[4].key: (ann) is that of limits.except[3]",
		"limits.except[4].mode: (shadow)", "limits.except[4].concurrency: (1)", "limits.except[5].rate: is 0 and nothing else is limited",
	} {
		if !strings.Contains(said, words) {
			t.Errorf("nothing says %q:\n%s", words, said)
		}
	}
	file := `limits: {except: [{layer: item, key: "1001", rate: 5, burst: 9}]}`
	got, err := Load("x.yaml", []byte(file))
	if err != nil || fmt.Sprint(got.Limits.Except) != "[{item 1001 5 9 0 enforce}]" || len(got.Validate()) > 0 {
		t.Errorf("%v %v %v", got.Limits.Except, err, got.Validate())
	}
}

// hasLine: one line has all words.
func hasLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

func TestWrittenLimits(t *testing.T) {
	var got []string
	for _, l := range []limitView{{Layer: "a", Rate: 2, Period: "1s"}, {Layer: "b", Rate: 1, Period: "2s"}, {Layer: "c", Rate: 5, Period: "100ms"}} {
		got = append(got, rateOf(l))
	}
	if fmt.Sprint(got) != "[2/s 1/2s 5/100ms]" {
		t.Errorf("%v", got)
	}
}
