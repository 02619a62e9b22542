package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// maxPlan is the largest body that the private API reads.
const maxPlan = 64 << 10

const planHelp = `
The plan is one JSON object:
  id            name of the sale; edit may leave it out
  item          what is sold
  starts_at     RFC 3339 with offset, or null: it opens with its preheat
  ends_at       RFC 3339 with offset
  total         units on sale
  buyer_limit   units for one buyer over the sale, 0 = no limit
  max_quantity  units in one order
  hold          time to pay, such as "15m"
  settle        "payment" with expiry "free", or "accept" with expiry "ask"
  expiry
and may name safety_stock (kept back, never sold), buckets (0 = one for each
Redis master), bucket_cap (0 = none) and reason, for the audit.`

const planExample = `{"id": "spring", "item": "1002", "starts_at": "2030-11-11T20:00:00+08:00", "ends_at": "2030-11-11T22:00:00+08:00",
   "total": 1000, "buyer_limit": 1, "max_quantity": 1, "hold": "15m", "expiry": "free", "settle": "payment"}`

func newSaleCreate(a *app) *cobra.Command {
	var f clientFlags
	var file string
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Plan a sale; it touches no stock before its preheat",
		Long:  "Plans a sale from a file, or from standard input with -f -.\n" + planHelp,
		Example: "  weir sale create -f plan.json\n  weir sale show demo --plan | sed 's/demo/spring/; s/1001/1002/' | weir sale create -f -\n\n  plan.json:\n  " +
			planExample,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := readPlan(cmd, file)
			if err != nil {
				return err
			}
			return a.ask(cmd, f, http.MethodPost, "/sales", plan, printSale)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` with the plan, - = standard input (required)")
	f.flags(cmd)
	return cmd
}

func newSaleEdit(a *app) *cobra.Command {
	var f clientFlags
	var file, match string
	cmd := &cobra.Command{
		Use:   "edit ID -f FILE",
		Short: "Replace the plan of a sale that has not started",
		Long: `Replaces the plan of a draft, or of a preheated sale that has not started; the
edit of a preheated one takes effect at its next preheat. The version rises by
itself. Sales of the configuration file are changed there.

The plan that stands is named by its ETag: without --if-match by the one that is
read just before. Who read the plan earlier gives the ETag that he saw; if
somebody else has changed it since, nothing is done.
` + planHelp,
		Example: "  weir sale show spring --plan > plan.json; vi plan.json; weir sale edit spring -f plan.json\n" +
			"  weir sale edit spring -f plan.json --if-match v3-8f14e45fceea167a",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := readPlan(cmd, file)
			if err != nil {
				return err
			}
			return a.changePlan(cmd, f, args[0], match, question{method: http.MethodPut, in: plan}, printSale)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` with the plan, - = standard input (required)")
	matchFlag(cmd, &match)
	f.flags(cmd)
	return cmd
}

func newSaleDelete(a *app) *cobra.Command {
	var f clientFlags
	var match, reason string
	cmd := &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a draft that was never preheated",
		Example: "  weir sale delete spring\n  weir sale delete spring --if-match v3-8f14e45fceea167a --reason \"called off\"",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := question{method: http.MethodDelete}
			if reason != "" {
				q.path = "?" + url.Values{"reason": {reason}}.Encode()
			}
			return a.changePlan(cmd, f, args[0], match, q, func(a *app, _ []byte) error {
				_, err := fmt.Fprintf(a.out, "deleted: %s\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	matchFlag(cmd, &match)
	f.flags(cmd)
	return cmd
}

func matchFlag(cmd *cobra.Command, match *string) {
	cmd.Flags().StringVar(match, "if-match", "", "`ETag` of the plan that is meant, * = whichever stands (default the one that is read just before)")
}

// changePlan sends q about a sale with the ETag of its plan. The path of q is
// what follows the sale's.
func (a *app) changePlan(cmd *cobra.Command, f clientFlags, id, match string, q question, print printer) error {
	at, err := salePath(id)
	if err != nil {
		return err
	}
	if match == "" && cmd.Flags().Changed("if-match") {
		return usagef("--if-match is empty, right is an ETag, or * for whichever plan stands")
	}
	c, err := a.client(f, cmd.Flags().Changed("config"))
	if err != nil {
		return err
	}
	switch {
	case match == "":
		now, err := c.ask(cmd.Context(), question{method: http.MethodGet, path: at})
		if err != nil {
			return err
		}
		if q.ifMatch = now.etag; q.ifMatch == "" {
			return fmt.Errorf("weir names no ETag of sale %s; is that address weir's private one?", id)
		}
	case match == "*", strings.HasPrefix(match, `"`):
		q.ifMatch = match
	default: // a shell has eaten the quotes
		q.ifMatch = `"` + match + `"`
	}
	q.path = at + q.path
	answer, err := c.ask(cmd.Context(), q)
	if err != nil {
		return err
	}
	if f.json {
		return raw(a.out, answer.body)
	}
	return print(a, answer.body)
}

// readPlan reads a JSON object. What it must hold is said by weir, which knows
// its own version.
func readPlan(cmd *cobra.Command, file string) (json.RawMessage, error) {
	if file == "" {
		return nil, usagef("a plan is needed: -f FILE, or -f - for standard input; see: %s --help", cmd.CommandPath())
	}
	text, err := readInput(cmd, file, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("-f %w", err)
	}
	var object map[string]json.RawMessage
	err = json.Unmarshal(text, &object)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		return nil, fmt.Errorf("-f %s:%d: is no JSON: %w", file, line, err)
	case err != nil || object == nil:
		return nil, fmt.Errorf("-f %s: is no JSON object, right is {\"id\": …}; see: %s --help", file, cmd.CommandPath())
	}
	return text, nil
}

// readInput reads a file, or standard input for "-", of at most so many bytes.
func readInput(cmd *cobra.Command, file string, most int64) ([]byte, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", file, bare(err))
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", file, bare(err))
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s is larger than %d KiB", file, most>>10)
	}
	return text, nil
}
