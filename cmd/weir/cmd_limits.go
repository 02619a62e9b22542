package main

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
)

// limitView is a limit as the private API tells it.
type limitView struct {
	Layer       string  `json:"layer"`
	Mode        string  `json:"mode"`
	Scope       string  `json:"scope"`
	Rate        float64 `json:"rate"`
	Period      string  `json:"period"`
	Burst       int     `json:"burst"`
	Concurrency int     `json:"concurrency"`
	Keys        int     `json:"keys"`
	Allowed     uint64  `json:"allowed"`
	Refused     uint64  `json:"refused"`
	Shadowed    uint64  `json:"shadowed"`
	Top         []struct {
		Key     string `json:"key"`
		Refused uint64 `json:"refused"`
		Doubt   uint64 `json:"doubt"`
	} `json:"top"`
}

func newLimitsVerbs(a *app) *cobra.Command {
	return group("limits", "Look at the limits of a running weir", newLimitsShow(a), newLimitsTop(a))
}

func newLimitsShow(a *app) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the limits in force and what they did",
		Long: `Shows each limit layer of the weir that is asked, in the order in which a request
meets them: its numbers, and since the start of that replica how many requests it
allowed, refused, and in shadow would have refused.`,
		Example: "  weir limits show\n  weir limits show --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, f, http.MethodGet, "/limits", nil, printLimits)
		},
	}
	f.flags(cmd)
	return cmd
}

func newLimitsTop(a *app) *cobra.Command {
	var f clientFlags
	n := 10
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show who is refused most",
		Long: `Shows of each limit layer who was refused most often of late by the weir that is
asked; a refusal counts half after each minute. The number is too high by at most
what stands behind ±.`,
		Example: "  weir limits top\n  weir limits top --most 3",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || n > 100 {
				return usagef("--most: (%d) is no such number, right is 1 to 100", n)
			}
			return a.ask(cmd, f, http.MethodGet, "/limits?top="+strconv.Itoa(n), nil, printTop)
		},
	}
	cmd.Flags().IntVar(&n, "most", n, "how `many` of each layer, up to 100")
	f.flags(cmd)
	return cmd
}

func printLimits(a *app, body []byte) error {
	list, err := decodeAnswer[struct{ Limits []limitView }](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"LAYER", "MODE", "SCOPE", "RATE", "BURST", "AT ONCE", "KEYS", "ALLOWED", "REFUSED", "SHADOW"}}
	for _, l := range list.Limits {
		scope, rate, burst, once := "-", "-", "-", "-" // the scope is the rate's
		if l.Rate > 0 {
			scope, rate, burst = l.Scope, rateOf(l), strconv.Itoa(l.Burst)
		}
		if l.Concurrency > 0 {
			once = strconv.Itoa(l.Concurrency)
		}
		rows = append(rows, []string{l.Layer, l.Mode, scope, rate, burst, once, strconv.Itoa(l.Keys), count(l.Allowed), count(l.Refused), count(l.Shadowed)})
	}
	return table(a.out, rows...)
}

func printTop(a *app, body []byte) error {
	list, err := decodeAnswer[struct{ Limits []limitView }](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"LAYER", "WHO", "REFUSED"}}
	for _, l := range list.Limits {
		for _, o := range l.Top {
			refused := count(o.Refused)
			if o.Doubt > 0 {
				refused += " ±" + count(o.Doubt)
			}
			rows = append(rows, []string{l.Layer, o.Key, refused})
		}
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintln(a.out, "nobody was refused of late")
		return err
	}
	return table(a.out, rows...)
}

// rateOf is 2/s, 1/2s, 5/100ms.
func rateOf(l limitView) string {
	period := l.Period
	if period == "1s" {
		period = "s"
	}
	return strconv.FormatFloat(l.Rate, 'g', -1, 64) + "/" + period
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }
