package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	// longest bounds a ban with an end: ten years, leap days counted.
	longest  = 3653 * day
	shortest = time.Second
)

// parseDuration reads a length of time as people write it:
//
//	[<n>w][<n>d][<Go duration>]   e.g. 90m  24h  7d  2w  1w3d12h  1h30m
//
// n is a whole number; weeks come before days, days before the rest. A bare
// number, a sign and an empty text are refused: a ban must never be permanent,
// or over already, by a slip of the pen. From one second to ten years.
func parseDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", week}, {"d", day}} {
		number, after, found := strings.Cut(rest, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16) // 65 535 weeks fit a Duration only after the check below
		if err != nil || time.Duration(n) > longest/unit.length {
			return 0, durationError(text)
		}
		sum += time.Duration(n) * unit.length
		rest = after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest, "+-") || d > longest {
			return 0, durationError(text)
		}
		sum += d
	}
	if sum < shortest || sum > longest {
		return 0, durationError(text)
	}
	return sum, nil
}

func durationError(text string) error {
	return fmt.Errorf("%q is not a duration from 1s to 10 years such as 90m, 24h, 7d or 2w", shorten(text))
}

// shorten keeps a refused value readable.
func shorten(text string) string {
	const keep = 64
	if len(text) <= keep {
		return text
	}
	return strings.ToValidUTF8(text[:keep], "") + "…"
}
