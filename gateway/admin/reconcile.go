package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/inventory"
)

const (
	reconcileTimeout = 5 * time.Minute
	reconcileRead    = time.Minute // to send the body in
	// MaxReconcileOrders bounds the list of the shop's orders of one call.
	MaxReconcileOrders = 200_000
	reconcileBody      = 64 << 20 // bytes: so many orders of 300 bytes each
	mostFaults         = 32
)

// ReconcileOrder is one order as the shop has it.
type ReconcileOrder struct {
	Reservation string          `json:"reservation"` // the idempotency key that the shop was given
	Order       string          `json:"order"`       // the shop's own number, may be empty
	User        string          `json:"user"`        // may be empty
	Quantity    int64           `json:"quantity"`
	State       inventory.State `json:"state"` // in weir's words: reserved = not paid yet, confirmed = sold, …
}

// ReconcileReport is what a comparison found.
type ReconcileReport struct {
	Sale       string           `json:"sale"`
	Checked    ReconcileChecked `json:"checked"`
	Unanswered int64            `json:"unanswered"` // reservations about which the shop could not say
	More       int64            `json:"more"`       // suspected differences that this run had no room for: run it again
	Asked      int64            `json:"asked"`      // reservations that the shop was asked about one by one
	Listed     bool             `json:"listed"`     // the shop's list was read, or given
	// LedgerGone: the sale is deleted in Redis; what counts as the ledger is the
	// archive, and it was compared with the shop only.
	LedgerGone bool `json:"ledger_gone"`
	// Differences are those that were found, overselling first.
	Differences []ReconcileDifference `json:"differences"`
}

// ReconcileChecked is how many records of each source were compared.
type ReconcileChecked struct {
	Ledger  int64 `json:"ledger"`
	Archive int64 `json:"archive"`
	Shop    int64 `json:"shop"`
}

// ReconcileDifference is one reservation on which the sources do not agree.
type ReconcileDifference struct {
	Reservation string `json:"reservation"`
	Kind        string `json:"kind"`    // of difference, a stable word
	Ledger      string `json:"ledger"`  // what it says, "" = nothing
	Archive     string `json:"archive"` // the same
	Shop        string `json:"shop"`    // the same
	Remedy      string `json:"remedy"`  // what --apply does, or what a person must do
	Count       int64  `json:"count"`   // reservations that it speaks of
	Person      bool   `json:"person"`  // apply leaves it to a person
	Passing     bool   `json:"passing"` // it goes by itself, with the next copy to the archive
	Applied     bool   `json:"applied"` // the remedy is carried out
	Error       string `json:"error"`   // why it could not be, "" = it could or was not asked for
}

// reconcile answers POST /api/v1/sales/{id}/reconcile. One runs at a time: it
// walks a whole sale.
func (c *Console) reconcile(cl *call) (act, error) {
	var apply bool
	var list json.RawMessage
	if err := cl.body(fields{"apply": &apply, "orders": &list}); err != nil {
		return nil, err
	}
	cl.reason = map[bool]string{true: "apply", false: "look"}[apply]
	if c.reconcileWith == nil {
		return nil, refuse(http.StatusNotImplemented, "not_configured", "This weir has nothing to reconcile with.")
	}
	orders, err := readOrders(list)
	if err != nil {
		return nil, err
	}
	id := cl.param("id")
	return func(ctx context.Context) (any, error) {
		if !c.reconciling.TryLock() {
			return nil, away("reconcile_busy", "Another reconcile runs on this replica.")
		}
		defer c.reconciling.Unlock()
		report, err := c.reconcileWith(ctx, id, apply, orders)
		if errors.Is(err, inventory.ErrUnknownSale) {
			return nil, c.preheatedOnly(ctx, id, err)
		}
		report.Differences = append([]ReconcileDifference{}, report.Differences...) // [] rather than null
		return report, err
	}, nil
}

// readOrders reads the shop's orders strictly and names the faults of at most
// 32 members. nil in, nil out.
func readOrders(list json.RawMessage) ([]ReconcileOrder, error) {
	if list == nil {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(list))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, badRequest("Field %q: value %s is not a list.", "orders", shorten(string(list)))
	}
	orders, faults := []ReconcileOrder{}, []Fault(nil)
	first := map[string]int{}
	for i := 0; d.More(); i++ {
		var o ReconcileOrder
		err := d.Decode(&o)
		if i == MaxReconcileOrders {
			return nil, refuse(http.StatusUnprocessableEntity, "invalid_orders", "Field %q holds more than %d orders.", "orders", MaxReconcileOrders)
		}
		if len(faults) < mostFaults {
			faults = append(faults, orderFaults(i, o, err, first)...)
		}
		orders = append(orders, o)
	}
	if len(faults) > 0 {
		return nil, faulty(http.StatusUnprocessableEntity, "invalid_orders", faults[:min(len(faults), mostFaults)])
	}
	return orders, nil
}

// orderFaults checks the i-th order; first remembers where each reservation came.
func orderFaults(i int, o ReconcileOrder, err error, first map[string]int) (faults []Fault) {
	fault := func(field, value, format string, args ...any) {
		faults = append(faults, Fault{Field: strings.TrimSuffix(fmt.Sprintf("orders[%d].%s", i, field), "."), Value: shorten(value), Problem: fmt.Sprintf(format, args...)})
	}
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		must := map[string]string{"": "an object", "quantity": "a whole number"}[kind.Field]
		fault(kind.Field, kind.Value, "must be %s", cmp.Or(must, "text"))
		return faults
	case err != nil:
		fault("", "", "%s", strings.TrimPrefix(err.Error(), "json: "))
		return faults
	}
	if o.Reservation == "" || len(o.Reservation) > 256 {
		fault("reservation", o.Reservation, "must be 1 to 256 bytes")
	} else if at, twice := first[o.Reservation]; twice {
		fault("reservation", o.Reservation, "stands in orders[%d] too", at)
	}
	first[o.Reservation] = i
	if o.Quantity < 1 || o.Quantity > mostUnits {
		fault("quantity", fmt.Sprint(o.Quantity), "must be a whole number from 1 to %d", mostUnits)
	}
	if !slices.Contains(states(), o.State) {
		fault("state", string(o.State), "must be one of %s", stateNames())
	}
	return faults
}

// roomFor lets the one request with a large body in, if who sends it may make
// it: strangers cannot fill the memory. It is asked once the head is there.
func (c *Console) roomFor(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	path, _, _ := strings.Cut(string(h.RequestURI()), "?")
	if string(h.Method()) != http.MethodPost || !strings.HasPrefix(path, "/api/v1/sales/") || !strings.HasSuffix(path, "/reconcile") {
		return fasthttp.RequestConfig{}
	}
	if who, ok := c.identify(string(h.Peek("Authorization"))); !ok || who.may&operator == 0 {
		return fasthttp.RequestConfig{}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: reconcileBody, ReadTimeout: reconcileRead}
}
