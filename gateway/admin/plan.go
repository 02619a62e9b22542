package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/inventory"
)

const (
	mostUnits   = 1_000_000_000 // of any count in a plan
	mostBuckets = 64            // as the leaf allows
	longestHold = 7 * day
)

// Fault is one thing wrong with what was sent.
type Fault struct {
	Field   string `json:"field"`           // as the API spells it
	Value   string `json:"value,omitempty"` // as it was sent, shortened
	Problem string `json:"problem"`
}

// planForm reads a plan and collects all its faults.
type planForm struct {
	values map[string]json.RawMessage
	faults []Fault
}

// planFields are the members of a plan. The version is weir's own business: a
// person who had to raise it would forget it.
func planFields() []string {
	return []string{"id", "item", "starts_at", "ends_at", "total", "safety_stock", "buckets", "bucket_cap",
		"buyer_limit", "max_quantity", "hold", "expiry", "settle", "reason"}
}

// readPlan reads the body of a plan. id is that of the path, "" = the body
// names it. What may be left out says so here; a limit is never off by omission.
func (c *Console) readPlan(cl *call, id string) (inventory.Sale, error) {
	members, err := splitObject(cl.http.Get("Content-Type"), cl.http.BodyRaw())
	if err != nil {
		return inventory.Sale{}, err
	}
	f := newPlanForm(members)
	s := inventory.Sale{ID: id, Version: 1}
	var reason, expiry, settle string
	f.text("id", &s.ID, id == "")
	f.text("item", &s.Item, true)
	f.moment("starts_at", &s.StartAt, true)
	f.moment("ends_at", &s.EndAt, false)
	f.units("total", &s.Total, 1, mostUnits, true)
	f.units("safety_stock", &s.SafetyStock, 0, mostUnits, false)
	buckets := int64(0)
	f.units("buckets", &buckets, 0, mostBuckets, false)
	s.Buckets = int(buckets)
	f.units("bucket_cap", &s.BucketCap, 0, mostUnits, false)
	f.units("buyer_limit", &s.BuyerLimit, 0, mostUnits, true)
	f.units("max_quantity", &s.MaxQuantity, 1, mostUnits, true)
	f.hold(&s.Hold)
	f.text("expiry", &expiry, true)
	f.text("settle", &settle, true)
	f.text("reason", &reason, false)
	s.Expiry, s.Settle = inventory.Expiry(expiry), inventory.Settle(settle)
	if err := note("reason", reason); err != nil {
		f.fault("reason", "must be printable text of at most 512 bytes")
	} else {
		cl.reason = reason
	}
	if id != "" && s.ID != id {
		f.fault("id", "must be %q as in the path, or be left out", shorten(id))
	}
	f.check(s, c.now())
	for _, fault := range c.checkPlan(s) {
		f.fault(fault.Field, "%s", fault.Problem)
	}
	return s, f.refusal()
}

func newPlanForm(members []member) *planForm {
	f := &planForm{values: map[string]json.RawMessage{}}
	for _, m := range members {
		_, twice := f.values[m.name]
		f.values[m.name] = m.value
		switch {
		case !slices.Contains(planFields(), m.name):
			f.fault(m.name, "is unknown; known are %s", strings.Join(planFields(), ", "))
		case twice:
			f.fault(m.name, "comes twice")
		}
	}
	return f
}

// fault notes the first fault of a field; a second would only be noise.
func (f *planForm) fault(field, format string, args ...any) {
	if f.faulty(field) {
		return
	}
	f.faults = append(f.faults, Fault{Field: shorten(field), Value: shorten(string(f.values[field])), Problem: fmt.Sprintf(format, args...)})
}

func (f *planForm) faulty(field string) bool {
	return slices.ContainsFunc(f.faults, func(p Fault) bool { return p.Field == shorten(field) })
}

// take finds a member, or notes that it is missing.
func (f *planForm) take(name string, needed bool) (json.RawMessage, bool) {
	value, ok := f.values[name]
	if !ok && needed {
		f.fault(name, "is missing")
	}
	return value, ok
}

func (f *planForm) text(name string, to *string, needed bool) {
	if raw, ok := f.take(name, needed); ok && (string(raw) == "null" || json.Unmarshal(raw, to) != nil) {
		f.fault(name, "must be text")
	}
}

func (f *planForm) units(name string, to *int64, least, most int64, needed bool) {
	raw, ok := f.take(name, needed)
	if !ok {
		return
	}
	if string(raw) == "null" || json.Unmarshal(raw, to) != nil || *to < least || *to > most {
		f.fault(name, "must be a whole number from %d to %d", least, most)
	}
}

// moment reads a time. Without an offset nobody knows when it is, and finer
// than a millisecond it would not be kept as it was sent.
func (f *planForm) moment(name string, to *time.Time, orNull bool) {
	raw, ok := f.take(name, true)
	if !ok || orNull && string(raw) == "null" {
		return
	}
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		t, err := time.Parse(time.RFC3339, text)
		if err == nil && t.Year() >= 2000 && t.Equal(t.Truncate(time.Millisecond)) {
			*to = t.UTC()
			return
		}
	}
	or := ""
	if orNull {
		or = ", or null: it opens with its preheat"
	}
	f.fault(name, "must be an RFC 3339 time with offset, in whole milliseconds, such as 2030-11-11T20:00:00+08:00%s", or)
}

func (f *planForm) hold(to *time.Duration) {
	var text string
	f.text("hold", &text, true)
	if f.faulty("hold") {
		return
	}
	d, err := parseDuration(text)
	if err != nil || d > longestHold || d%time.Millisecond != 0 {
		f.fault("hold", "must be a duration from 1s to 7d such as 15m")
		return
	}
	*to = d
}

// check asks the leaf, and for what only a plan that is still made must keep.
func (f *planForm) check(s inventory.Sale, now time.Time) {
	for _, p := range faultsOf(s.Validate()) {
		f.fault(p.Field, "%s", p.Problem)
	}
	if !s.EndAt.After(now) {
		f.fault("ends_at", "is past")
	}
	if !f.faulty("total") && s.MaxQuantity > s.Total {
		f.fault("max_quantity", "must not be more than total")
	}
	if s.BuyerLimit > 0 && s.MaxQuantity > s.BuyerLimit {
		f.fault("max_quantity", "must not be more than buyer_limit")
	}
	switch {
	case s.Settle == inventory.SettleAccept && s.Expiry == inventory.ExpiryFree:
		f.fault("expiry", `must be "ask" with settle "accept": a unit whose order the shop made while its answer was lost would be sold again`)
	case s.Settle == inventory.SettlePayment && s.Expiry == inventory.ExpiryAsk:
		f.fault("expiry", `must be "free" with settle "payment": units that nobody pays would be held for ever`)
	}
}

// refusal tells all faults at once, or is nil.
func (f *planForm) refusal() error {
	if len(f.faults) == 0 {
		return nil
	}
	return faulty(http.StatusUnprocessableEntity, "invalid_sale", f.faults)
}

// faulty is a refusal that names fields and values, in words and as members.
func faulty(status int, code string, faults []Fault) *refusal {
	told := make([]string, len(faults))
	for i, p := range faults {
		told[i] = fmt.Sprintf("Field %q: %s.", p.Field, p.Problem)
		if p.Value != "" {
			told[i] = fmt.Sprintf("Field %q (value %s): %s.", p.Field, p.Value, p.Problem)
		}
	}
	no := refuse(status, code, "%s", strings.Join(told, " "))
	no.extra = map[string]any{"faults": faults}
	return no
}

// faultsOf reads the leaf's lines "… invalid sale: field: text"; one without a
// field is left out.
func faultsOf(err error) (all []Fault) {
	if err == nil {
		return nil
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		for _, kind := range []error{inventory.ErrInvalidSale, inventory.ErrInvalidPreheat} {
			_, text, found := strings.Cut(line, kind.Error()+": ")
			field, problem, ok := strings.Cut(text, ": ")
			if found && ok && slices.Contains(planFields(), field) {
				all = append(all, Fault{Field: field, Problem: problem})
			}
		}
	}
	return all
}
