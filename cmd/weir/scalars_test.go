package main

import (
	"testing"
	"time"
)

func TestDurationsWithDays(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "30d": 30 * day, "1d12h": 36 * time.Hour, "0": 0, "0d": 0, "1.5h": 90 * time.Minute,
	} {
		got, err := parseDuration(in)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
		if back, err := parseDuration(formatDuration(got)); err != nil || back != got {
			t.Errorf("%s is written as %s", in, formatDuration(got))
		}
	}
	for _, in := range []string{"", "5", "-5s", "1d-1h", "d", "-1d", "1.5d", "99999999999d", "300y", "5 s", "+5s"} {
		if d, err := parseDuration(in); err == nil {
			t.Errorf("%q became %v", in, d)
		}
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]Size{"0": 0, "512": 512, "512B": 512, "16KiB": 16 << 10, "1 MiB": 1 << 20, "2GiB": 2 << 30} {
		got, err := parseSize(in)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
		if back, err := parseSize(got.String()); err != nil || back != got {
			t.Errorf("%s is written as %s", in, got)
		}
	}
	for _, in := range []string{"", "-1", "1KB", "1.5MiB", "KiB", "99999999999GiB", "1kib"} {
		if s, err := parseSize(in); err == nil {
			t.Errorf("%q became %d", in, s)
		}
	}
}

func TestSaleTimes(t *testing.T) {
	for in, want := range map[string]string{
		"now": "now", "+720h": "+30d", "+90m": "+1h30m", "2030-11-11T20:00:00+08:00": "2030-11-11T12:00:00Z", "2030-11-11T20:00:00.5Z": "2030-11-11T20:00:00.5Z",
	} {
		got, err := parseSaleTime(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "+", "+0s", "+-1h", "Now", "2030-11-11", "2030-11-11 20:00:00Z", "0001-01-01T00:00:00Z", "2030-13-01T00:00:00Z"} {
		if s, err := parseSaleTime(in); err == nil {
			t.Errorf("%q became %s", in, s)
		}
	}
}
