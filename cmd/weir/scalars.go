package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Size is a number of bytes, written as 512, 64KiB, 1MiB or 2GiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseSize reads a size; without a unit it is bytes.
func parseSize(s string) (Size, error) {
	number, factor := s, int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, errors.New("is no size, right is bytes or KiB, MiB, GiB such as 64KiB")
	}
	return Size(n * factor), nil
}

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s > 0 && int64(s)%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

const day = 24 * time.Hour

var errDuration = errors.New("is no duration, right is a number with unit such as 500ms, 5s, 1h30m or 30d")

// parseDuration reads Go's durations, with whole days in front: 30d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	var days time.Duration
	rest := s
	if head, tail, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseInt(head, 10, 32)
		if err != nil || n < 0 || n > int64(math.MaxInt64/day)/2 {
			return 0, errDuration
		}
		days, rest = time.Duration(n)*day, tail
		if rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || strings.ContainsAny(rest, "+-") || d > math.MaxInt64/2 {
		return 0, errDuration
	}
	return days + d, nil
}

// formatDuration writes d so that parseDuration reads it back, without zero parts.
func formatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// SaleTime is the zero value ("now"), a moment, or a time after the start.
type SaleTime struct {
	At    time.Time     // UTC
	After time.Duration // with At zero: this long after the start
}

// Now says that the time is the moment of the preheat.
func (t SaleTime) Now() bool { return t.At.IsZero() && t.After == 0 }

// parseSaleTime reads now, RFC 3339 with offset, or +duration.
func parseSaleTime(s string) (SaleTime, error) {
	if s == "now" {
		return SaleTime{}, nil
	}
	if d, ok := strings.CutPrefix(s, "+"); ok {
		after, err := parseDuration(d)
		if err == nil && after == 0 {
			err = errors.New("is no time at all, right is more than +0s")
		}
		return SaleTime{After: after}, err
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || at.Year() < 2000 {
		return SaleTime{}, errors.New("is no time, right is RFC 3339 with offset such as 2030-11-11T20:00:00+08:00, now, or for an end +2h")
	}
	return SaleTime{At: at.UTC()}, nil
}

// String writes what parseSaleTime reads.
func (t SaleTime) String() string {
	switch {
	case t.Now():
		return "now"
	case t.At.IsZero():
		return "+" + formatDuration(t.After)
	}
	return t.At.Format(time.RFC3339Nano)
}

// clip makes a value fit for a message: short, one line, no control bytes.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
