package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// saleView is a sale as the private API tells it.
type saleView struct {
	ID          string     `json:"id"`
	Version     int64      `json:"version"`
	Item        string     `json:"item"`
	State       string     `json:"state"`
	StartsAt    *time.Time `json:"starts_at"`
	EndsAt      *time.Time `json:"ends_at"`
	Total       int64      `json:"total"`
	SafetyStock int64      `json:"safety_stock"`
	BucketCap   int64      `json:"bucket_cap"`
	BuyerLimit  int64      `json:"buyer_limit"`
	MaxQuantity int64      `json:"max_quantity"`
	Hold        string     `json:"hold"`
	Expiry      string     `json:"expiry"`
	Settle      string     `json:"settle"`
	Preheated   bool       `json:"preheated"`
	Generation  int64      `json:"generation"`
	SoldOut     bool       `json:"sold_out"`
}

// levelView is a reading of a sale's stock.
type levelView struct {
	Sale      string    `json:"sale"`
	Total     int64     `json:"total"`
	Free      int64     `json:"free"`
	Reserved  int64     `json:"reserved"`
	Confirmed int64     `json:"confirmed"`
	OnLoan    int64     `json:"on_loan"`
	At        time.Time `json:"at"`
}

func newSaleVerbs(a *app) *cobra.Command {
	return group("sale", "Look at and steer the sales of a running weir",
		newSaleList(a),
		newSaleVerb(a, "show", "Show the plan and state of a sale", http.MethodGet, "", printSale),
		newSaleVerb(a, "level", "Show the stock of a sale: free, reserved, confirmed", http.MethodGet, "/level", printLevel),
		newSaleVerb(a, "preheat", "Write the stock of a sale to Redis; doing it twice changes nothing", http.MethodPost, "/preheat", printSale),
		newSaleVerb(a, "pause", "Stop selling for now; holds and payments go on", http.MethodPost, "/pause", printSale),
		newSaleVerb(a, "resume", "Sell again after a pause", http.MethodPost, "/resume", printSale),
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
	cmd := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: fmt.Sprintf("  weir sale %s demo\n  weir sale %s demo --json", verb, verb),
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !nameForm.MatchString(args[0]) {
				return usagef("(%s) is no id of a sale, right is %s", clip(args[0]), nameRule)
			}
			return a.ask(cmd, f, method, "/sales/"+url.PathEscape(args[0])+path, nil, print)
		},
	}
	f.flags(cmd)
	return cmd
}

func printSales(a *app, body []byte) error {
	list, err := decodeAnswer[struct{ Sales []saleView }](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "VERSION", "ITEM", "STATE", "STARTS", "ENDS", "TOTAL", "PREHEATED", "SOLD OUT"}}
	for _, s := range list.Sales {
		rows = append(rows, []string{s.ID, decimal(s.Version), s.Item, s.State, stamp(s.StartsAt, "now"), stamp(s.EndsAt, "never"),
			decimal(s.Total), yes(s.Preheated), yes(s.SoldOut)})
	}
	return table(a.out, rows...)
}

func printSale(a *app, body []byte) error {
	s, err := decodeAnswer[saleView](body)
	if err != nil {
		return err
	}
	return table(a.out,
		[]string{"sale", s.ID}, []string{"version", decimal(s.Version)}, []string{"item", s.Item}, []string{"state", s.State},
		[]string{"starts", stamp(s.StartsAt, "now")}, []string{"ends", stamp(s.EndsAt, "never")},
		[]string{"total", decimal(s.Total)}, []string{"safety stock", decimal(s.SafetyStock)}, []string{"bucket cap", zero(s.BucketCap, "none")},
		[]string{"buyer limit", zero(s.BuyerLimit, "none")}, []string{"max quantity", decimal(s.MaxQuantity)},
		[]string{"hold", s.Hold}, []string{"expiry", s.Expiry}, []string{"settle", s.Settle},
		[]string{"preheated", yes(s.Preheated)}, []string{"generation", decimal(s.Generation)}, []string{"sold out", yes(s.SoldOut)})
}

func printLevel(a *app, body []byte) error {
	l, err := decodeAnswer[levelView](body)
	if err != nil {
		return err
	}
	return table(a.out,
		[]string{"SALE", "TOTAL", "FREE", "RESERVED", "CONFIRMED", "ON LOAN", "AT"},
		[]string{l.Sale, decimal(l.Total), decimal(l.Free), decimal(l.Reserved), decimal(l.Confirmed), decimal(l.OnLoan), stamp(&l.At, "-")})
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
