package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/inventory"
)

// levelView is a reading of a sale's stock.
type levelView struct {
	Sale      string       `json:"sale"`
	Total     int64        `json:"total"`
	Free      int64        `json:"free"`
	Reserved  int64        `json:"reserved"`
	Confirmed int64        `json:"confirmed"`
	OnLoan    int64        `json:"on_loan"`
	At        time.Time    `json:"at"`
	Buckets   []bucketView `json:"buckets"`
}

// bucketView is a reading of one part of it.
type bucketView struct {
	Index     int64  `json:"index"`
	Tag       string `json:"tag"`
	Planned   int64  `json:"planned"`
	LentIn    int64  `json:"lent_in"`
	LentOut   int64  `json:"lent_out"`
	Free      int64  `json:"free"`
	Reserved  int64  `json:"reserved"`
	Confirmed int64  `json:"confirmed"`
}

func printLevel(a *app, body []byte) error {
	l, err := decodeAnswer[levelView](body)
	if err != nil {
		return err
	}
	err = table(a.out,
		[]string{"SALE", "TOTAL", "FREE", "RESERVED", "CONFIRMED", "ON LOAN", "AT"},
		[]string{l.Sale, decimal(l.Total), decimal(l.Free), decimal(l.Reserved), decimal(l.Confirmed), decimal(l.OnLoan), stamp(&l.At, "-")})
	if err != nil || len(l.Buckets) == 0 {
		return err
	}
	rows := [][]string{{"BUCKET", "TAG", "PLANNED", "LENT IN", "LENT OUT", "FREE", "RESERVED", "CONFIRMED"}}
	for _, b := range l.Buckets {
		rows = append(rows, []string{decimal(b.Index), b.Tag, decimal(b.Planned), decimal(b.LentIn), decimal(b.LentOut),
			decimal(b.Free), decimal(b.Reserved), decimal(b.Confirmed)})
	}
	fmt.Fprintln(a.out)
	return table(a.out, rows...)
}

const (
	exitDifferences = exitError // of sale audit
	exitUnproved    = exitUsage // of sale audit: nobody knows

	auditWithin = 150 * time.Second // weir itself gives up before
)

// unproved ends sale audit with exitUnproved: a script must not take "could
// not be asked" for "asked, and wrong".
func unproved(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// auditView is the proof of a sale's books.
type auditView struct {
	OK          bool      `json:"ok"`
	Proved      bool      `json:"proved"`
	Differences []string  `json:"differences"`
	Level       levelView `json:"level"`
}

func newSaleAudit(a *app) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "audit ID",
		Short: "Prove the books of a sale: counters, ledger, buyers",
		Long: `Adds up the ledger of a sale and compares it with its counters, while it sells.
Prints OK, or the first difference and then the others, at most 32.

Exit status: 0 the books are right, 1 they are not, 2 it could not be proved:
the stock changed during every walk, weir did not answer, no such sale.`,
		Example: "  weir sale audit demo\n  weir sale audit demo --json || echo \"exit status $?\"",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := salePath(args[0])
			if err != nil {
				return err
			}
			c, err := a.client(f, cmd.Flags().Changed("config"))
			if err != nil {
				return unproved(err)
			}
			answer, err := c.ask(cmd.Context(), question{method: http.MethodGet, path: at + "/audit", within: auditWithin})
			if err != nil {
				return unproved(err)
			}
			return a.tellAudit(args[0], answer.body, f.json)
		},
	}
	f.flags(cmd)
	return cmd
}

// tellAudit prints the proof; its error is the exit status.
func (a *app) tellAudit(sale string, body []byte, asJSON bool) error {
	v, err := decodeAnswer[auditView](body)
	if err != nil {
		return unproved(err)
	}
	if asJSON {
		err = raw(a.out, body)
	} else {
		err = printAudit(a, sale, v)
	}
	switch {
	case err != nil:
		return unproved(err)
	case !v.Proved:
		return unproved(fmt.Errorf("the books of %s could not be proved", sale))
	case !v.OK:
		return fmt.Errorf("the books of %s do not agree: %s", sale, counted(len(v.Differences), "difference"))
	}
	return nil
}

func printAudit(a *app, sale string, v auditView) error {
	l := v.Level
	if v.OK {
		_, err := fmt.Fprintf(a.out, "%s: OK. %d units: %d free, %d reserved, %d confirmed, %d on loan\n",
			sale, l.Total, l.Free, l.Reserved, l.Confirmed, l.OnLoan)
		return err
	}
	for i, d := range v.Differences {
		word := "then: "
		if i == 0 {
			word = "first: "
		}
		if _, err := fmt.Fprintln(a.out, word+oneLine(d)); err != nil {
			return err
		}
	}
	return nil
}

// rowView is one reservation of a ledger.
type rowView struct {
	Reservation string     `json:"reservation"`
	Kind        string     `json:"kind"`
	User        string     `json:"user"`
	Quantity    int64      `json:"quantity"`
	State       string     `json:"state"`
	ReservedAt  *time.Time `json:"reserved_at"`
	Order       string     `json:"order"`
}

// ledgerAsk are the flags of sale ledger; each is a parameter of the API.
type ledgerAsk struct {
	user, order, reservation, state, cursor string
	limit                                   int
}

func newSaleLedger(a *app) *cobra.Command {
	var f clientFlags
	var q ledgerAsk
	cmd := &cobra.Command{
		Use:   "ledger ID",
		Short: "Say who took which units of a sale, when, for what kind of document",
		Long: `Lists reservations in order of time. --reservation looks one up; anything else
walks the ledger. More than --limit are told page by page, see --cursor.`,
		Example: `  weir sale ledger demo --user u-4711
  weir sale ledger demo --order A-100200
  weir sale ledger demo --reservation 5XQ2… --json
  weir sale ledger demo --state refund_due --limit 1000`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := salePath(args[0])
			if err != nil {
				return err
			}
			for _, name := range []string{"user", "order", "reservation", "state", "cursor"} {
				if v := cmd.Flags().Lookup(name); v.Changed && v.Value.String() == "" {
					return usagef("--%s is empty; leave it out to see all", name)
				}
			}
			query, err := q.query()
			if err != nil {
				return err
			}
			return a.ask(cmd, f, http.MethodGet, at+"/ledger"+query, nil, printLedger)
		},
	}
	cmd.Flags().StringVar(&q.user, "user", "", "what this `user` took")
	cmd.Flags().StringVar(&q.order, "order", "", "what this `order` of the shop took")
	cmd.Flags().StringVar(&q.reservation, "reservation", "", "this one, by its `id`")
	cmd.Flags().StringVar(&q.state, "state", "", "only in this `state`: "+strings.Join(reservationStates(), ", "))
	cmd.Flags().IntVar(&q.limit, "limit", 100, "most rows, up to 1000")
	cmd.Flags().StringVar(&q.cursor, "cursor", "", "go on at this `cursor`, as the page before named it")
	f.flags(cmd)
	return cmd
}

func reservationStates() []string {
	var all []string
	for _, s := range []inventory.State{inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Expired,
		inventory.RefundDue, inventory.Returned, inventory.Cancelled} {
		all = append(all, string(s))
	}
	return all
}

func (q ledgerAsk) query() (string, error) {
	if q.limit < 1 || q.limit > 1000 {
		return "", usagef("--limit (%d) is out of range, right is 1 to 1000", q.limit)
	}
	if q.state != "" && !slices.Contains(reservationStates(), q.state) {
		return "", usagef("--state (%s) is no state, right is one of %s", clip(q.state), strings.Join(reservationStates(), ", "))
	}
	asked := 0
	for _, s := range []string{q.user, q.order, q.reservation} {
		if s != "" {
			asked++
		}
	}
	if asked > 1 {
		return "", usagef("say one of --user, --order and --reservation")
	}
	v := url.Values{}
	for name, value := range map[string]string{"user": q.user, "order": q.order, "reservation": q.reservation, "state": q.state, "cursor": q.cursor} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.limit != 100 {
		v.Set("limit", decimal(int64(q.limit)))
	}
	if len(v) == 0 {
		return "", nil
	}
	return "?" + v.Encode(), nil
}

func printLedger(a *app, body []byte) error {
	page, err := decodeAnswer[struct {
		Rows     []rowView
		Next     string
		Complete bool
	}](body)
	if err != nil {
		return err
	}
	rows := [][]string{{"RESERVED", "RESERVATION", "USER", "KIND", "UNITS", "STATE", "ORDER"}}
	for _, r := range page.Rows {
		rows = append(rows, []string{stamp(r.ReservedAt, "never"), r.Reservation, r.User, r.Kind, decimal(r.Quantity), r.State, r.Order})
	}
	if err := table(a.out, rows...); err != nil {
		return err
	}
	switch {
	case !page.Complete:
		return errors.New("the ledger is too long to be walked in time: rows are missing; ask by --reservation, or when the sale is quiet")
	case page.Next != "":
		_, err = fmt.Fprintf(a.errOut, "weir: there are more: --cursor %s\n", oneLine(page.Next))
	}
	return err
}
