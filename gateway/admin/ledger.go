package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/inventory"
)

const (
	ledgerPage   = 100 // rows when no limit is asked for
	ledgerMost   = 1000
	ledgerBudget = 8 * time.Second // of one walk; within readTimeout
)

// ledgerRow says who took which units, when, for what.
type ledgerRow struct {
	Reservation string          `json:"reservation"`
	Kind        string          `json:"kind"` // of document; "order" unless the buy said another
	User        string          `json:"user"`
	Item        string          `json:"item"`
	Quantity    int64           `json:"quantity"`
	State       inventory.State `json:"state"`
	ReservedAt  *time.Time      `json:"reserved_at"` // null: cancelled before it came
	ExpiresAt   *time.Time      `json:"expires_at"`
	Order       string          `json:"order,omitempty"` // the shop's
	Stuck       bool            `json:"stuck,omitempty"`
}

// ledgerPageOf is one answer, rows in order of time. Next is the cursor of the
// rows behind it, "" = none. Not complete: the walk took too long, rows are
// missing and there is no cursor.
type ledgerPageOf struct {
	Rows     []ledgerRow `json:"rows"`
	Next     string      `json:"next"`
	Complete bool        `json:"complete"`
}

func ledgerQuery() []string {
	return []string{"user", "order", "reservation", "state", "cursor", "limit"}
}

// ledgerPlace is a row's place in the order of the answers: time, then id.
// Places do not move while the sale goes on, so a cursor loses nothing and
// repeats nothing, whatever order the walk has.
type ledgerPlace struct {
	at int64 // reserved, ms
	id string
}

func placeOf(r inventory.Reservation) ledgerPlace {
	return ledgerPlace{max(r.ReservedAt.UnixMilli(), 0), r.ID}
}

func (p ledgerPlace) compare(q ledgerPlace) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.id, q.id))
}

func (p ledgerPlace) String() string { return strconv.FormatInt(p.at, 10) + "." + p.id }

// ledgerFilter is what one call asks for.
type ledgerFilter struct {
	user, order, reservation string
	state                    inventory.State
	after                    ledgerPlace
	limit                    int
}

func readLedgerFilter(cl *call) (f ledgerFilter, err error) {
	f = ledgerFilter{user: cl.query("user"), order: cl.query("order"), reservation: cl.query("reservation"),
		state: inventory.State(cl.query("state")), after: ledgerPlace{at: -1}, limit: ledgerPage}
	if f.state != "" && !slices.Contains(states(), f.state) {
		return f, badRequest("Parameter %q: value %q is none of %s.", "state", shorten(string(f.state)), stateNames())
	}
	if text := cl.query("limit"); text != "" {
		if f.limit, err = strconv.Atoi(text); err != nil || f.limit < 1 || f.limit > ledgerMost {
			return f, badRequest("Parameter %q: value %q is not a number from 1 to %d.", "limit", shorten(text), ledgerMost)
		}
	}
	if text := cl.query("cursor"); text != "" {
		at, id, ok := strings.Cut(text, ".")
		if f.after.at, err = strconv.ParseInt(at, 10, 64); err != nil || !ok || f.after.at < 0 {
			return f, badRequest("Parameter %q: value %q is no cursor that an answer gave.", "cursor", shorten(text))
		}
		f.after.id = id
	}
	return f, nil
}

// states are all states that a ledger knows.
func states() []inventory.State {
	return []inventory.State{inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Expired,
		inventory.RefundDue, inventory.Returned, inventory.Cancelled}
}

func stateNames() string {
	var names []string
	for _, s := range states() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (f ledgerFilter) wants(r inventory.Reservation) bool {
	return (f.user == "" || r.User == f.user) && (f.order == "" || r.ShopOrder == f.order) &&
		(f.reservation == "" || r.ID == f.reservation) && (f.state == "" || r.State == f.state) &&
		placeOf(r).compare(f.after) > 0
}

// ledger answers GET /api/v1/sales/{id}/ledger. One reservation is looked up;
// anything else walks the whole ledger in slices, as it has no other order, and
// keeps at most 2·(limit + 1) rows of it.
func (c *Console) ledger(cl *call) (any, error) {
	id := cl.param("id")
	f, err := readLedgerFilter(cl)
	if err != nil {
		return nil, err
	}
	page := &ledgerHeap{limit: f.limit + 1} // one more says whether there is a next page
	ctx, cancel := context.WithTimeout(cl.ctx, c.ledgerBudget)
	defer cancel()
	if f.reservation != "" {
		err = c.oneOfLedger(ctx, id, f, page)
	} else {
		err = c.stock.Ledger(ctx, id, func(r inventory.Reservation) error {
			if f.wants(r) {
				page.add(r)
			}
			return ctx.Err()
		})
	}
	late := err != nil && ctx.Err() != nil && cl.ctx.Err() == nil
	if err != nil && !late {
		return nil, c.preheatedOnly(cl.ctx, id, err)
	}
	return page.answer(f.limit, !late), nil
}

// oneOfLedger looks one reservation up.
func (c *Console) oneOfLedger(ctx context.Context, sale string, f ledgerFilter, page *ledgerHeap) error {
	r, err := c.find(ctx, f.reservation)
	if err == nil && r.Sale == sale {
		if f.wants(r) {
			page.add(r)
		}
		return nil
	}
	if err != nil && !errors.Is(err, inventory.ErrUnknownReservation) {
		return err
	}
	_, err = c.stock.Look(ctx, sale)
	return err
}

// ledgerHeap keeps the first limit rows of what it is given in any order, and
// the last version of a row that comes twice.
type ledgerHeap struct {
	limit int
	rows  []inventory.Reservation
	full  bool
	last  ledgerPlace // with full: what lies behind it is not needed
}

func (h *ledgerHeap) add(r inventory.Reservation) {
	if h.full && placeOf(r).compare(h.last) > 0 {
		return
	}
	if h.rows = append(h.rows, r); len(h.rows) >= 2*h.limit {
		h.trim()
	}
}

func (h *ledgerHeap) trim() {
	slices.Reverse(h.rows) // stable: of equal places the last one given comes first
	slices.SortStableFunc(h.rows, func(a, b inventory.Reservation) int { return placeOf(a).compare(placeOf(b)) })
	h.rows = slices.CompactFunc(h.rows, func(a, b inventory.Reservation) bool { return a.ID == b.ID })
	if len(h.rows) >= h.limit {
		h.rows = h.rows[:h.limit]
		h.full, h.last = true, placeOf(h.rows[h.limit-1])
	}
}

func (h *ledgerHeap) answer(limit int, complete bool) ledgerPageOf {
	h.trim()
	page := ledgerPageOf{Rows: []ledgerRow{}, Complete: complete}
	for _, r := range h.rows[:min(limit, len(h.rows))] {
		page.Rows = append(page.Rows, showRow(r))
	}
	if complete && len(h.rows) > limit {
		page.Next = placeOf(h.rows[limit-1]).String()
	}
	return page
}

func showRow(r inventory.Reservation) ledgerRow {
	row := ledgerRow{Reservation: r.ID, Kind: cmp.Or(r.Kind, "order"), User: r.User, Item: r.Item, Quantity: r.Quantity,
		State: r.State, Order: r.ShopOrder, Stuck: r.Stuck}
	if r.ReservedAt.UnixMilli() > 0 {
		row.ReservedAt = &r.ReservedAt
	}
	if r.ExpiresAt.UnixMilli() > 0 {
		row.ExpiresAt = &r.ExpiresAt
	}
	return row
}
