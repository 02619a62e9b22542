package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// banView is a ban as the private API tells it.
type banView struct {
	Scope   string     `json:"scope"`
	Value   string     `json:"value"`
	Reason  string     `json:"reason"`
	Author  string     `json:"author"`
	Origin  string     `json:"origin"`
	Created *time.Time `json:"created"`
	Until   *time.Time `json:"until"` // null when permanent
}

var banScopes = []string{"user", "addr", "cidr", "device"}

func newBanVerbs(a *app) *cobra.Command {
	return group("ban", "Shut users, addresses, networks and devices out", newBanAdd(a), newBanList(a), newBanRemove(a))
}

// banOrder is the body of POST /bans.
type banOrder struct {
	Scope     string `json:"scope"`
	Value     string `json:"value"`
	Reason    string `json:"reason"`
	For       string `json:"for,omitempty"`
	Until     string `json:"until,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

func newBanAdd(a *app) *cobra.Command {
	var f clientFlags
	var b banOrder
	cmd := &cobra.Command{
		Use:   "add SCOPE VALUE",
		Short: "Ban a user, addr, cidr or device on every replica",
		Long: `Bans VALUE on every replica within 2 seconds. SCOPE is user, addr, cidr or
device. How long must be said: --for, --until or --permanent.`,
		Example: `  weir ban add user u-4711 --reason "buys with stolen cards" --permanent
  weir ban add addr 203.0.113.9 --reason scraping --for 24h
  weir ban add cidr 203.0.113.0/24 --reason botnet --until 2030-11-12T00:00:00+08:00`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.Scope, b.Value = args[0], args[1]
			if err := b.check(); err != nil {
				return err
			}
			return a.ask(cmd, f, http.MethodPost, "/bans", b, printBan("banned"))
		},
	}
	cmd.Flags().StringVar(&b.Reason, "reason", "", "why, for the audit and whoever lifts it (required)")
	cmd.Flags().StringVar(&b.For, "for", "", "`duration` such as 30m, 24h or 30d")
	cmd.Flags().StringVar(&b.Until, "until", "", "`time` in RFC 3339 with offset")
	cmd.Flags().BoolVar(&b.Permanent, "permanent", false, "until it is removed")
	f.flags(cmd)
	return cmd
}

// check finds what can be known without asking, and writes days as hours, the
// only long unit of the API.
func (b *banOrder) check() error {
	if err := checkScope(b.Scope); err != nil {
		return err
	}
	if strings.TrimSpace(b.Reason) == "" {
		return usagef("a ban needs --reason")
	}
	said := 0
	for _, s := range []bool{b.For != "", b.Until != "", b.Permanent} {
		if s {
			said++
		}
	}
	if said != 1 {
		return usagef("say how long, with one of --for, --until and --permanent")
	}
	if b.For != "" {
		d, err := parseDuration(b.For)
		if err != nil || d <= 0 {
			return usagef("--for (%s) %w", clip(b.For), errDuration)
		}
		b.For = d.String()
	}
	if _, err := time.Parse(time.RFC3339, b.Until); b.Until != "" && err != nil {
		return usagef("--until (%s) is no time, right is RFC 3339 with offset such as 2030-11-11T20:00:00+08:00", clip(b.Until))
	}
	return nil
}

func checkScope(s string) error {
	if !slices.Contains(banScopes, s) {
		return usagef("(%s) is no scope, right is one of %s", clip(s), strings.Join(banScopes, ", "))
	}
	return nil
}

func newBanList(a *app) *cobra.Command {
	var f clientFlags
	var scope, value string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the bans",
		Example: "  weir ban list\n  weir ban list --scope addr --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			if scope != "" {
				if err := checkScope(scope); err != nil {
					return err
				}
				q.Set("scope", scope)
			}
			if value != "" {
				q.Set("value", value)
			}
			path := "/bans"
			if len(q) > 0 {
				path += "?" + q.Encode()
			}
			return a.ask(cmd, f, http.MethodGet, path, nil, printBans)
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "", "only this `scope`: user, addr, cidr or device")
	cmd.Flags().StringVar(&value, "value", "", "only this `value`")
	f.flags(cmd)
	return cmd
}

func newBanRemove(a *app) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "remove SCOPE VALUE",
		Short:   "Lift a ban on every replica",
		Example: "  weir ban remove user u-4711\n  weir ban remove cidr 203.0.113.0/24",
		Args:    usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkScope(args[0]); err != nil {
				return err
			}
			q := url.Values{"scope": {args[0]}, "value": {args[1]}}
			return a.ask(cmd, f, http.MethodDelete, "/bans?"+q.Encode(), nil, func(a *app, body []byte) error {
				removed, err := decodeAnswer[struct{ Ban banView }](body)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "lifted: %s %s\n", oneLine(removed.Ban.Scope), oneLine(removed.Ban.Value))
				return err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func printBan(word string) printer {
	return func(a *app, body []byte) error {
		b, err := decodeAnswer[banView](body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s: %s %s, until %s, because %s\n", word, oneLine(b.Scope), oneLine(b.Value), stamp(b.Until, "removed"), oneLine(b.Reason))
		return err
	}
}

func printBans(a *app, body []byte) error {
	list, err := decodeAnswer[struct{ Bans []banView }](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"SCOPE", "VALUE", "UNTIL", "AUTHOR", "ORIGIN", "CREATED", "REASON"}}
	for _, b := range list.Bans {
		rows = append(rows, []string{b.Scope, b.Value, stamp(b.Until, "removed"), b.Author, b.Origin, stamp(b.Created, "-"), b.Reason})
	}
	return table(a.out, rows...)
}
