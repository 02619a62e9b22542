package archive

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"weir/inventory"
)

// model is the archive of one sale in a few lines of Go, written without a look
// at merge and arrows.
type model struct {
	total int64
	rows  map[string]inventory.Reservation
}

// further are the states that each state may become, in one step or more.
func further() map[inventory.State][]inventory.State {
	return map[inventory.State][]inventory.State{
		inventory.Reserved:  {inventory.Confirmed, inventory.Released, inventory.Expired, inventory.RefundDue, inventory.Returned},
		inventory.Expired:   {inventory.Confirmed, inventory.RefundDue, inventory.Returned},
		inventory.Confirmed: {inventory.Returned},
	}
}

func (m *model) sold() int64 {
	n := int64(0)
	for _, r := range m.rows {
		if r.State == inventory.Confirmed {
			n += r.Quantity
		}
	}
	return n
}

func has(list []inventory.State, s inventory.State) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (m *model) save(rows []inventory.Reservation) error {
	before := maps.Clone(m.rows)
	for _, r := range rows {
		old, exists := m.rows[r.ID]
		news := old.State == r.State && r.Attempt >= old.Attempt
		if exists && !news && !has(further()[old.State], r.State) {
			continue
		}
		if r.ShopOrder == "" {
			r.ShopOrder = old.ShopOrder
		}
		r.Attempt = max(r.Attempt, old.Attempt)
		m.rows[r.ID] = r
	}
	if m.sold() > m.total {
		m.rows = before
		return inventory.ErrOversold
	}
	return nil
}

func (m *model) settle(id string, to inventory.State, attempt int, order string) (inventory.Reservation, error) {
	r, exists := m.rows[id]
	if !exists {
		return r, inventory.ErrUnknownReservation
	}
	switch fmt.Sprint(r.State, " ", to) {
	case "confirmed confirmed", "refund_due confirmed", "released released", "returned released", "cancelled released", "returned returned", "confirmed reserved":
		return r, nil
	}
	open := r.State == inventory.Reserved && to != inventory.Returned && to != inventory.Expired
	if late := r.State == inventory.Expired && to == inventory.Confirmed; (open || late) && attempt != 0 && attempt != r.Attempt {
		return r, inventory.ErrAttemptOver
	}
	switch fmt.Sprint(r.State, " ", to) {
	case "reserved reserved":
	case "reserved confirmed", "expired confirmed":
		r.State = inventory.Confirmed
		if m.sold()+r.Quantity > m.total {
			r.State = inventory.RefundDue
		}
	case "reserved released", "confirmed returned":
		r.State = to
	default:
		return r, inventory.ErrNotAllowed
	}
	r.Stuck = false
	if order != "" {
		r.ShopOrder = order
	}
	m.rows[id] = r
	return r, nil
}

// history is a model and an archive that hear the same.
type history struct {
	t    *rapid.T
	d    *DB
	sale inventory.Sale
	m    *model
}

func (h history) drawRow(id int) inventory.Reservation {
	state := rapid.SampledFrom([]inventory.State{
		inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Expired,
		inventory.RefundDue, inventory.Returned, inventory.Cancelled,
	}).Draw(h.t, "state")
	r := row(id, state, int64(1+id%2))
	r.ID, r.Sale = fmt.Sprintf("%s-%d", h.sale.ID, id), h.sale.ID
	r.Attempt = rapid.IntRange(1, 2).Draw(h.t, "attempt")
	r.ShopOrder = rapid.SampledFrom([]string{"", "a", "b"}).Draw(h.t, "order")
	r.Stuck = rapid.Bool().Draw(h.t, "stuck")
	return r
}

func (h history) save() {
	var rows []inventory.Reservation
	for range rapid.IntRange(0, 5).Draw(h.t, "rows") {
		rows = append(rows, h.drawRow(rapid.IntRange(0, 5).Draw(h.t, "id")))
	}
	want := h.m.save(rows)
	for range rapid.IntRange(1, 2).Draw(h.t, "times") {
		if err := h.d.Save(h.t.Context(), h.sale, rows); !errors.Is(err, want) {
			h.t.Fatalf("save: %v, the model says %v", err, want)
		}
	}
}

func (h history) settle() {
	id := fmt.Sprintf("%s-%d", h.sale.ID, rapid.IntRange(0, 6).Draw(h.t, "id"))
	to := rapid.SampledFrom([]inventory.State{inventory.Confirmed, inventory.Released, inventory.Returned, inventory.Expired, inventory.Reserved}).Draw(h.t, "to")
	attempt := rapid.IntRange(0, 2).Draw(h.t, "attempt")
	order := rapid.SampledFrom([]string{"", "c"}).Draw(h.t, "order")
	want, wantErr := h.m.settle(id, to, attempt, order)
	got, err := h.d.Settle(h.t.Context(), id, to, attempt, order)
	if !errors.Is(err, wantErr) || got != want {
		h.t.Fatalf("settle %s to %s: %+v, %v; the model says %+v, %v", id, to, got, err, want, wantErr)
	}
}

func (h history) check() {
	all := checkArchive(h.t, h.d, h.sale.ID)
	if !maps.Equal(all, h.m.rows) {
		h.t.Fatalf("stored %+v, the model says %+v", all, h.m.rows)
	}
}

func TestAnyOrderOfSavesAndSettlesIsAsTheModelSays(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			h := history{t: rt, d: d, sale: plan(rapid.Int64Range(0, 6).Draw(rt, "total"))}
			h.sale.ID = fmt.Sprintf("sale-%d", n)
			h.m = &model{total: h.sale.Total, rows: map[string]inventory.Reservation{}}
			must(t, d.Save(rt.Context(), h.sale, nil))
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				if rapid.Bool().Draw(rt, "settle") {
					h.settle()
				} else {
					h.save()
				}
				h.check()
			}
		})
	})
}
