package archive

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/inventory"
)

// asked is one thing that a reservation is asked for, by an attempt.
type asked struct {
	name    string
	attempt int
}

func (a asked) of(ctx context.Context, s *stock, sale, id string) (inventory.Reservation, error) {
	switch a.name {
	case "accept":
		return s.Accept(ctx, sale, id, a.attempt, "S-9")
	case "confirm":
		return s.Confirm(ctx, sale, id, a.attempt, "S-9")
	}
	return s.Release(ctx, sale, id, a.attempt)
}

// into brings a reservation whose attempt 2 is current into a state.
func (s *stock) into(t *testing.T, state inventory.State, sale, id string) {
	t.Helper()
	var err error
	switch state {
	case inventory.Confirmed:
		_, err = s.Confirm(t.Context(), sale, id, 2, "S-1")
	case inventory.Released:
		_, err = s.Release(t.Context(), sale, id, 2)
	case inventory.Returned:
		s.into(t, inventory.Confirmed, sale, id)
		_, err = s.Release(t.Context(), sale, id, 0)
	case inventory.Cancelled:
		_, err = s.Release(t.Context(), sale, id, 0)
	case inventory.Expired:
		_, err = s.Sweep(t.Context(), sale)
	}
	must(t, err)
	if r, err := s.Find(t.Context(), id); err != nil || r.State != state {
		t.Fatalf("brought into %s, not %s: %v", r.State, state, err)
	}
}

// twice is an order of which attempt 2 is current.
func (s *stock) twice(t *testing.T, sale inventory.Sale, user string) string {
	t.Helper()
	o := inventory.Order{
		ID: inventory.NewOrderID(sale.ID, user), Sale: sale.ID, Item: sale.Item, User: user, Quantity: 1, AttemptFor: time.Second,
	}
	for n := 1; n <= 2; n++ {
		res, err := s.Reserve(t.Context(), o)
		if err != nil || !res.Granted || res.Reservation.Attempt != n {
			t.Fatalf("%+v, %v", res, err)
		}
		s.advance(t, time.Second)
	}
	return o.ID
}

// TestStock_T18d_TheArchiveAnswersAsRedisDid: of two reservations with one
// history, one is asked while the keys live and the other after they are gone.
func TestStock_T18d_TheArchiveAnswersAsRedisDid(t *testing.T) {
	var asks []asked
	for _, name := range []string{"accept", "confirm", "release"} {
		for attempt := range 3 {
			asks = append(asks, asked{name, attempt})
		}
	}
	each(t, func(t *testing.T, d *DB) {
		for n, state := range []inventory.State{
			inventory.Reserved, inventory.Confirmed, inventory.Released, inventory.Returned, inventory.Expired, inventory.Cancelled,
		} {
			sale := plan(1000)
			sale.ID = fmt.Sprintf("sale-%d", n)
			s := newStock(t, sale, d)
			twins := [2][]string{}
			for i := range asks {
				for j := range twins {
					user := fmt.Sprintf("%s-%d-%d", state, i, j)
					id := inventory.NewOrderID(sale.ID, user)
					if state != inventory.Cancelled {
						id = s.twice(t, sale, user)
					}
					twins[j] = append(twins[j], id)
				}
			}
			if state == inventory.Expired {
				s.advance(t, sale.Hold)
			}
			for i := range asks {
				s.into(t, state, sale.ID, twins[0][i])
				s.into(t, state, sale.ID, twins[1][i])
			}
			s.compare(t, sale.ID, asks, twins)
			checkArchive(t, d, sale.ID)
		}
	})
}

func (s *stock) compare(t *testing.T, sale string, asks []asked, twins [2][]string) {
	t.Helper()
	type told struct {
		state   inventory.State
		order   string
		open    bool
		refused string
	}
	ask := func(a asked, id string) told {
		r, err := a.of(t.Context(), s, sale, id)
		w := told{state: r.State, order: r.ShopOrder, open: !r.AttemptUntil.IsZero()}
		for _, known := range []error{inventory.ErrNotAllowed, inventory.ErrAttemptOver} {
			if errors.Is(err, known) {
				w.refused, err = known.Error(), nil
			}
		}
		must(t, err)
		return w
	}
	var before []told
	for i, a := range asks {
		before = append(before, ask(a, twins[0][i]))
	}
	_, err := s.SetDesired(t.Context(), sale, inventory.DesiredCancelled)
	must(t, err)
	must(t, s.Cleanup(t.Context(), sale))
	for i, a := range asks {
		for range 2 { // again is the same
			if after := ask(a, twins[1][i]); after != before[i] {
				t.Errorf("%s by attempt %d: %+v in the archive, %+v in Redis", a.name, a.attempt, after, before[i])
			}
		}
	}
}
