package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestASpreadIsMedianLeastAndMost(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{9, 1, 5}, spread{5, 1, 9}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9}},
	} {
		if got := spreadOf(c.in); got != c.want {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
}

func TestRatiosAreMadePairByPair(t *testing.T) {
	got := ratios([]float64{1, 6}, []float64{2, 3})
	if len(got) != 2 || got[0] != 0.5 || got[1] != 2 {
		t.Errorf("got %v", got)
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	for v, want := range map[float64]string{7: "7", 999.4: "999", 1000: "1 000", 1234567: "1 234 567"} {
		if got := whole(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
}

func TestProcessorTimeIsReadWhateverTheProcessIsCalled(t *testing.T) {
	got, err := parseStat("42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 8 0 100 1 1")
	if err != nil || got != 3*time.Second {
		t.Errorf("got %v, %v; want 3s", got, err)
	}
	if _, err := parseStat("42 (x) S 1"); err == nil {
		t.Error("a short line is read")
	}
}

func TestWhatOthersUsedIsTheRestOfTheMachine(t *testing.T) {
	all, err := parseMachineStat("cpu  300 20 50 9999 5 10 20 8 0 0\ncpu0 1 2 3\n")
	if err != nil || all != 4*time.Second {
		t.Errorf("got %v, %v; want 4s", all, err)
	}
	if _, err := parseMachineStat("intr 1 2 3 4"); err == nil {
		t.Error("another line is read")
	}
	begin := usage{at: time.Unix(0, 0), all: time.Second, our: time.Second}
	end := usage{at: time.Unix(2, 0), all: 3 * time.Second, our: 2 * time.Second}
	if got, want := end.othersSince(begin), 0.5/float64(runtime.NumCPU()); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheFirstFaultEndsATurn(t *testing.T) {
	broken := errors.New("broken")
	_, err := repeat(t.Context(), os.Getpid(), 4, time.Minute, func(context.Context, int64) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestTheReportHoldsEveryFigureAndItsLimits(t *testing.T) {
	second := func(n int) tally { return tally{requests: n, wanted: n, took: time.Second, cpu: time.Second} }
	r := report{
		opt: options{conns: 32, pairs: 1, turn: time.Second, step: time.Second},
		refusals: []refusalResult{{refusal: refusalKinds()[0], bodySize: 174,
			pairs: []pair{{empty: second(50_000), weir: second(25_000)}}}},
		reserves: []cell{{durability: "appendonly no", callers: 16,
			turns: [ops][]tally{{second(80_000)}, {second(40_000)}, {second(10_000)}}}},
	}
	text := r.markdown()
	for _, want := range []string{
		"| limited user | empty fiber, 174 bytes | 50 000 | 20.0 |",
		"| | weir, 429 `rate_limited` | 25 000 | 40.0 |",
		"| limited user | 0.50 (0.50 – 0.50) | 2.00 (2.00 – 2.00) | 100.000 % |",
		"| appendonly no | 16 | PING | 80 000 | 12.5 |",
		"| 10 000 | 100.0 | 0.12 (0.12 – 0.12) | 0.25 (0.25 – 0.25) |",
		"does not\nshow what a host carries", "does not show a sale",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
