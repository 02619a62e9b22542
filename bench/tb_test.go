package main

import (
	"slices"
	"testing"
)

func TestATesterStopsAtAFaultAndCleansUp(t *testing.T) {
	var did []string
	err := withTester(t.Context(), func(tb testing.TB) {
		tb.Cleanup(func() { did = append(did, "first") })
		tb.Cleanup(func() {
			if tb.Context().Err() == nil {
				t.Error("the context outlives the run")
			}
			did = append(did, "second")
		})
		tb.Errorf("odd: %d", 1)
		did = append(did, "went on")
		tb.Fatal("it is", " over")
		did = append(did, "went on after a fatal fault")
	})
	if err == nil || err.Error() != "odd: 1\nit is over" {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"went on", "second", "first"}; !slices.Equal(did, want) {
		t.Errorf("did %v, want %v", did, want)
	}
	if err := withTester(t.Context(), func(testing.TB) {}); err != nil {
		t.Error(err)
	}
}
