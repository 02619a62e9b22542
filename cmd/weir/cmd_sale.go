package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/gateway/admin"
	"weir/inventory"
)

// saleView is a sale as the private API tells it.
type saleView struct {
	planView
	Version          int64  `json:"version"`
	ETag             string `json:"etag"`   // only in the answer about one sale
	Reason           string `json:"reason"` // why weir itself paused it
	State            string `json:"state"`
	InConfigFile     bool   `json:"in_config_file"`
	Preheated        bool   `json:"preheated"`
	PreheatedVersion int64  `json:"preheated_version"`
	Generation       int64  `json:"generation"`
	SoldOut          bool   `json:"sold_out"`
	// Quota is nil where nothing was ever frozen.
	Quota *inventory.QuotaState `json:"quota"`
}

// planView is what of a sale may be edited, in the form that create and edit take.
type planView struct {
	ID          string     `json:"id"`
	Item        string     `json:"item"`
	StartsAt    *time.Time `json:"starts_at"`
	EndsAt      *time.Time `json:"ends_at"`
	Total       int64      `json:"total"`
	SafetyStock int64      `json:"safety_stock"`
	Buckets     int64      `json:"buckets"`
	BucketCap   int64      `json:"bucket_cap"`
	BuyerLimit  int64      `json:"buyer_limit"`
	MaxQuantity int64      `json:"max_quantity"`
	Hold        string     `json:"hold"`
	Expiry      string     `json:"expiry"`
	Settle      string     `json:"settle"`
}

func newSaleVerbs(a *app) *cobra.Command {
	return group("sale", "Look at and steer the sales of a running weir",
		newSaleList(a), newSaleShow(a), newSaleCreate(a), newSaleEdit(a), newSaleDelete(a),
		newSaleVerb(a, "level", "Show the stock of a sale, whole and by bucket", http.MethodGet, "/level", printLevel),
		newSaleAudit(a), newSaleLedger(a), newSaleReconcile(a),
		newSaleVerb(a, "preheat", "Write the stock of a planned sale to Redis; doing it twice changes nothing", http.MethodPost, "/preheat", printSale),
		newSaleVerb(a, "pause", "Stop selling for now; holds and payments go on", http.MethodPost, "/pause", printSale),
		newSaleVerb(a, "resume", "Sell again after a pause", http.MethodPost, "/resume", printSale),
		newSaleVerb(a, "archive", "Copy a sale to the archive now; one that is over for long enough is deleted in Redis", http.MethodPost, "/archive", printArchived),
		newSaleVerb(a, "cancel", "End a sale for good; this version cannot be opened again", http.MethodPost, "/cancel", printSale),
	)
}

func newSaleList(a *app) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List all sales",
		Example: "  weir sale list\n  weir sale list --json --admin 10.0.0.2:9090 --token-file admin.token",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, f, http.MethodGet, "/sales", nil, printSales)
		},
	}
	f.flags(cmd)
	return cmd
}

// newSaleVerb is a verb on one sale: one call, one answer.
func newSaleVerb(a *app, verb, short, method, path string, print printer) *cobra.Command {
	var f clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: fmt.Sprintf("  weir sale %s demo\n  weir sale %s demo --json", verb, verb),
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := salePath(args[0])
			if err != nil {
				return err
			}
			var in any
			if reason != "" {
				in = map[string]string{"reason": reason}
			}
			return a.ask(cmd, f, method, at+path, in, print)
		},
	}
	if method == http.MethodPost {
		cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	}
	f.flags(cmd)
	return cmd
}

// salePath is where a sale stands in the API.
func salePath(id string) (string, error) {
	if !nameForm.MatchString(id) {
		return "", usagef("(%s) is no id of a sale, right is %s", clip(id), nameRule)
	}
	return "/sales/" + url.PathEscape(id), nil
}

func newSaleShow(a *app) *cobra.Command {
	var plan bool
	cmd := newSaleVerb(a, "show", "Show the plan and state of a sale", http.MethodGet, "", func(a *app, body []byte) error {
		if plan {
			return printPlan(a, body)
		}
		return printSale(a, body)
	})
	cmd.Flags().BoolVar(&plan, "plan", false, "only what may be edited, as the JSON that create and edit take")
	cmd.Example += "\n  weir sale show demo --plan > plan.json"
	return cmd
}

// printPlan leaves out what is weir's: state, version, generation.
func printPlan(a *app, body []byte) error {
	p, err := decodeAnswer[planView](body)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return raw(a.out, text)
}

func printSales(a *app, body []byte) error {
	list, err := decodeAnswer[struct{ Sales []saleView }](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "VERSION", "ITEM", "STATE", "STARTS", "ENDS", "TOTAL", "PREHEATED", "SOLD OUT"}}
	for _, s := range list.Sales {
		rows = append(rows, []string{s.ID, decimal(s.Version), s.Item, s.State, stamp(s.StartsAt, "now"), stamp(s.EndsAt, "never"),
			decimal(s.Total), s.preheated(), yes(s.SoldOut)})
	}
	if err := table(a.out, rows...); err != nil {
		return err
	}
	for _, s := range list.Sales {
		if s.Reason != "" {
			fmt.Fprintf(a.errOut, "weir: %s was paused by weir itself: %s; see: weir sale reconcile %s\n", oneLine(s.ID), oneLine(s.Reason), oneLine(s.ID))
		}
	}
	return nil
}

func printSale(a *app, body []byte) error {
	s, err := decodeAnswer[saleView](body)
	if err != nil {
		return err
	}
	rows := [][]string{
		{"sale", s.ID}, {"version", decimal(s.Version)}, {"item", s.Item}, {"state", s.State},
		{"starts", stamp(s.StartsAt, "now")}, {"ends", stamp(s.EndsAt, "never")},
		{"total", decimal(s.Total)}, {"safety stock", decimal(s.SafetyStock)},
		{"buckets", zero(s.Buckets, "one for each Redis master")}, {"bucket cap", zero(s.BucketCap, "none")},
		{"buyer limit", zero(s.BuyerLimit, "none")}, {"max quantity", decimal(s.MaxQuantity)},
		{"hold", s.Hold}, {"expiry", s.Expiry}, {"settle", s.Settle},
		{"planned in", s.origin()}, {"preheated", s.preheated()}, {"generation", decimal(s.Generation)}, {"sold out", yes(s.SoldOut)},
	}
	if s.ETag != "" {
		rows = append(rows, []string{"etag", strings.Trim(s.ETag, `"`)})
	}
	if s.Reason != "" {
		rows = append(rows, []string{"paused because", s.Reason}, []string{"what to do", "weir sale reconcile " + s.ID + ", then weir sale resume " + s.ID})
	}
	if s.Quota != nil {
		rows = append(rows, quotaRows(*s.Quota)...)
	}
	return table(a.out, rows...)
}

// preheated says which version sells while an edit waits for its preheat.
func (s saleView) preheated() string {
	if s.Preheated && s.PreheatedVersion > 0 && s.PreheatedVersion != s.Version {
		return "version " + decimal(s.PreheatedVersion)
	}
	return yes(s.Preheated)
}

func (s saleView) origin() string {
	if s.InConfigFile {
		return "the configuration file"
	}
	return "the API"
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func zero(n int64, word string) string {
	if n == 0 {
		return word
	}
	return decimal(n)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printer writes an answer for people.
type printer func(a *app, body []byte) error

// ask makes one call and prints the answer.
func (a *app) ask(cmd *cobra.Command, f clientFlags, method, path string, in any, print printer) error {
	c, err := a.client(f, cmd.Flags().Changed("config"))
	if err != nil {
		return err
	}
	body, err := c.call(cmd.Context(), method, path, in)
	if err != nil {
		return err
	}
	if f.json {
		return raw(a.out, body)
	}
	return print(a, body)
}

func printArchived(a *app, body []byte) error {
	d, err := decodeAnswer[admin.Archived](body)
	if err != nil {
		return err
	}
	text := "complete"
	if !d.Complete {
		text = "not complete: " + d.Missing
	}
	if d.Deleted {
		text += "; deleted in Redis, the archive answers from now on"
	}
	_, err = fmt.Fprintf(a.out, "%s copied, %d of them open; %s\n", counted(int(d.Rows), "reservation"), d.Open, text)
	return err
}
