package inventory

import (
	"context"
	"fmt"
)

// Swept is what one sweep found.
type Swept struct {
	Freed int64         // units given back by due holds
	Ask   []Reservation // attempts that ran out unsettled: ask the shop by reservation id
}

// Sweep frees due holds and lists attempts that ran out unsettled, at most 256
// of each, in one script. What it lists is listed again two seconds later, to
// whichever replica sweeps then, until it is settled.
func (s *Store) Sweep(ctx context.Context, sale string) (Swept, error) {
	r, e, err := s.bucketScript(ctx, sale, &s.scripts.sweep)
	if err != nil {
		return Swept{}, err
	}
	if r.code == int64(NotPreheated) {
		return Swept{}, fmt.Errorf("sweep %s: %w", sale, ErrUnknownSale)
	}
	swept := Swept{Freed: r.number(0)}
	if len(r.rest) < 2 {
		return swept, nil
	}
	ask, _ := r.rest[1].([]any)
	for i := 0; i+1 < len(ask); i += 2 {
		id, _ := ask[i].(string)
		text, _ := ask[i+1].(string)
		res, err := parseRecord(e.view.Sale, id, text)
		if err != nil {
			return swept, err
		}
		swept.Ask = append(swept.Ask, res)
	}
	return swept, nil
}
