package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// spread is what is told of a list of figures.
type spread struct{ median, least, most float64 }

func spreadOf(figures []float64) spread {
	if len(figures) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	s := slices.Sorted(slices.Values(figures))
	half := len(s) / 2
	m := s[half]
	if len(s)%2 == 0 {
		m = (s[half-1] + s[half]) / 2
	}
	return spread{m, s[0], s[len(s)-1]}
}

// each computes one figure of every turn.
func each[T any](turns []T, figure func(T) float64) []float64 {
	out := make([]float64, len(turns))
	for i, t := range turns {
		out[i] = figure(t)
	}
	return out
}

// ratios divides turn by turn: what disturbs the machine for a while disturbs both sides of a pair.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

func (s spread) String() string {
	return fmt.Sprintf("%.2f (%.2f – %.2f)", s.median, s.least, s.most)
}

// quantile is the value below which the share q of all lies, the nearest above; it sorts them.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[max(int(math.Ceil(q*float64(len(took))))-1, 0)]
}

// micros is a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// whole writes 12 345 for 12345.4.
func whole(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
