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
