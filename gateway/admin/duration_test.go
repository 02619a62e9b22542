package admin

import (
	"testing"
	"time"
)

func TestDurationsAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "24h": day, "7d": week, "2w": 2 * week, "1w3d12h": week + 3*day + 12*time.Hour,
		"1.5h": 90 * time.Minute, "1h30m": 90 * time.Minute, "1s": time.Second, "3653d": longest, "521w": 521 * week,
		"1d0.5h": day + 30*time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestDurationsThatMeanNothingAreRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "0", "0d", "0s", "90", "-5m", "+5m", "-1d", "+1d", "1d-5h", "1e3h", "99999999h", "3654d", "522w", "521w7d",
		"65535w", "65536w", "18446744073709551616d", "forever", "d", "w", "1.5d", "1d2w", "1h2d", "1d1d", "1 d", "1D", "24H",
		"1y", "999ms", "1ns", "٣d", "1dd",
	} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"1w3d12h", "90m", "65535w65535d", "1e3h", "-1d", "d5w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil && (d < shortest || d > longest) {
			t.Fatalf("%q = %s", text, d)
		}
	})
}
