package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/gateway/admin"
	"weir/inventory"
)

const (
	reconcileWithin = 6 * time.Minute // weir itself gives up before
	maxOrdersFile   = 64 << 20        // bytes
	mostCSVFaults   = 32
)

// reconcileAsk is the body of POST …/reconcile. Without a file weir asks the
// shop for its orders.
type reconcileAsk struct {
	Apply  bool                    `json:"apply"`
	Orders *[]admin.ReconcileOrder `json:"orders,omitempty"`
}

func newSaleReconcile(a *app) *cobra.Command {
	var f clientFlags
	var apply bool
	var file string
	cmd := &cobra.Command{
		Use:   "reconcile ID",
		Short: "Compare the ledger of a sale with the archive and the shop's orders",
		Long: `Compares what the ledger in Redis, the archive and the shop say about each
reservation, and prints each difference with its remedy. --apply carries the
remedies out that weir can carry out.

--orders names the shop's orders as CSV, UTF-8, with exactly this header:
  reservation,order,user,quantity,state
state is in weir's words: ` + strings.Join(reservationStates(), ", ") + `;
order and user may be empty. A file with a fault is not sent.

Exit status: 0 no difference is left, 1 some are, or it failed.`,
		Example: "  weir sale reconcile demo\n  weir sale reconcile demo --orders orders.csv\n  weir sale reconcile demo --orders orders.csv --apply --json",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := salePath(args[0])
			if err != nil {
				return err
			}
			in := reconcileAsk{Apply: apply}
			if file != "" {
				orders, err := readOrders(cmd, file)
				if err != nil {
					return err
				}
				in.Orders = &orders
			}
			c, err := a.client(f, cmd.Flags().Changed("config"))
			if err != nil {
				return err
			}
			answer, err := c.ask(cmd.Context(), question{method: http.MethodPost, path: at + "/reconcile", in: in, within: reconcileWithin})
			if err != nil {
				return err
			}
			return a.tellReport(answer.body, f.json)
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "carry the remedies out")
	cmd.Flags().StringVar(&file, "orders", "", "the shop's orders, CSV `file`, - = standard input")
	f.flags(cmd)
	return cmd
}

// tellReport prints what was found; an error says that some of it is left.
func (a *app) tellReport(body []byte, asJSON bool) error {
	r, err := decodeAnswer[admin.ReconcileReport](body)
	if err != nil {
		return err
	}
	if asJSON {
		err = raw(a.out, body)
	} else {
		err = printReport(a, r)
	}
	if err != nil {
		return err
	}
	left := 0
	for _, d := range r.Differences {
		if !d.Applied && !d.Passing {
			left++
		}
	}
	if r.More > 0 {
		return fmt.Errorf("sale %s: %s left, and %d more to look into: run it again", oneLine(r.Sale), counted(left, "difference"), r.More)
	}
	if left > 0 {
		return fmt.Errorf("sale %s: %s left", oneLine(r.Sale), counted(left, "difference"))
	}
	return nil
}

func printReport(a *app, r admin.ReconcileReport) error {
	if _, err := fmt.Fprintf(a.out, "compared: %s; %s\n", compared(r), counted(len(r.Differences), "difference")); err != nil || len(r.Differences) == 0 {
		return err
	}
	rows := [][]string{{"RESERVATION", "KIND", "LEDGER", "ARCHIVE", "SHOP", "REMEDY", "APPLIED"}}
	for _, d := range r.Differences {
		applied := yes(d.Applied)
		switch {
		case d.Applied:
		case d.Person:
			applied = "left to a person"
		case d.Passing:
			applied = "goes by itself"
		}
		if d.Error != "" {
			applied += ": " + d.Error
		}
		rows = append(rows, []string{d.Reservation, d.Kind, dash(d.Ledger), dash(d.Archive), dash(d.Shop), d.Remedy, applied})
	}
	return table(a.out, rows...)
}

// compared names the sources. A shop that neither listed nor answered is no
// proof of anything, and is said.
func compared(r admin.ReconcileReport) string {
	text := fmt.Sprintf("%d in the ledger, %d in the archive", r.Checked.Ledger, r.Checked.Archive)
	if r.LedgerGone {
		text = fmt.Sprintf("%d in the archive (the ledger is deleted)", r.Checked.Ledger)
	}
	switch {
	case r.Listed:
		return fmt.Sprintf("%s, %d of the shop", text, r.Checked.Shop)
	case r.Asked > 0:
		return fmt.Sprintf("%s; the shop has no list and was asked about %d, %d of them without an answer", text, r.Asked, r.Unanswered)
	}
	return text + "; the shop was not asked"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ordersHeader is the first line of the shop's orders.
func ordersHeader() []string { return []string{"reservation", "order", "user", "quantity", "state"} }

// orderFile reads the shop's orders and collects its faults by line.
type orderFile struct {
	name   string
	orders []admin.ReconcileOrder
	first  map[string]int // reservation -> line
	faults []error
}

// readOrders reads a CSV file whole, or tells what is wrong with it, line by line.
func readOrders(cmd *cobra.Command, file string) ([]admin.ReconcileOrder, error) {
	text, err := readInput(cmd, file, maxOrdersFile)
	if err != nil {
		return nil, fmt.Errorf("--orders %w", err)
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("--orders %s: is not UTF-8", file)
	}
	o := orderFile{name: file, orders: []admin.ReconcileOrder{}, first: map[string]int{}}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	r.FieldsPerRecord = -1 // counted here, so that all lines are told
	header, err := r.Read()
	if err != nil || !slices.Equal(header, ordersHeader()) {
		return nil, fmt.Errorf("--orders %s:1: (%s) is no header, right is %s", file, clip(strings.Join(header, ",")), strings.Join(ordersHeader(), ","))
	}
	for len(o.faults) < mostCSVFaults {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			o.fault(bad.Line, "", "", bad.Err.Error())
			break // where the next line begins is a guess
		}
		if len(o.orders) == admin.MaxReconcileOrders {
			return nil, fmt.Errorf("--orders %s: holds more than %d orders", file, admin.MaxReconcileOrders)
		}
		line, _ := r.FieldPos(0)
		o.take(line, row)
	}
	return o.orders, errors.Join(o.faults...)
}

func (o *orderFile) fault(line int, field, value, text string) {
	if field != "" {
		text = fmt.Sprintf("%s (%s): %s", field, clip(value), text)
	}
	o.faults = append(o.faults, fmt.Errorf("--orders %s:%d: %s", o.name, line, text))
}

// take checks one line.
func (o *orderFile) take(line int, row []string) {
	if len(row) != len(ordersHeader()) {
		o.fault(line, "", "", fmt.Sprintf("has %d fields, right is %d", len(row), len(ordersHeader())))
		o.orders = append(o.orders, admin.ReconcileOrder{})
		return
	}
	quantity, err := strconv.ParseInt(row[3], 10, 64)
	if err != nil || quantity < 1 || quantity > maxUnits {
		o.fault(line, "quantity", row[3], fmt.Sprintf("is no whole number from 1 to %d", maxUnits))
	}
	if !slices.Contains(reservationStates(), row[4]) {
		o.fault(line, "state", row[4], "is none of "+strings.Join(reservationStates(), ", "))
	}
	at, twice := o.first[row[0]]
	switch {
	case row[0] == "" || len(row[0]) > 256:
		o.fault(line, "reservation", row[0], "is not 1 to 256 bytes long")
	case twice:
		o.fault(line, "reservation", row[0], fmt.Sprintf("stands in line %d too", at))
	default:
		o.first[row[0]] = line
	}
	o.orders = append(o.orders, admin.ReconcileOrder{Reservation: row[0], Order: row[1], User: row[2],
		Quantity: quantity, State: inventory.State(row[4])})
}
