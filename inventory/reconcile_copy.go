package inventory

import (
	"context"
	"errors"
	"fmt"
)

// copyBehind brings the archive up to the ledger: what was behind, and what
// this run has changed.
func (r *reconcile) copyBehind(ctx context.Context) error {
	if !r.archives() {
		return nil
	}
	lag, touched := int64(0), false
	for _, f := range r.known {
		if behind(f) {
			lag++
		}
		touched = touched || f.touched
	}
	if lag == 0 && !touched {
		return nil
	}
	d := Difference{Kind: KindArchiveBehind, Count: lag, Remedy: fmt.Sprintf("Copy %d of the ledger's records to the archive.", lag)}
	var err error
	if r.q.Apply {
		if err = r.copyAll(ctx); err != nil {
			d.Error = err.Error()
		}
		d.Applied, lag = err == nil, lag-r.refused
		d.Count = lag
	}
	if lag > 0 {
		r.add(d)
	}
	return err
}

// copyAll walks the ledger again and saves what the archive lacks, in slices.
func (r *reconcile) copyAll(ctx context.Context) error {
	slice := make([]Reservation, 0, ArchiveSlice)
	save := func() error {
		if len(slice) == 0 {
			return nil
		}
		err := r.saveSlice(ctx, slice)
		slice = slice[:0]
		return err
	}
	err := r.q.Books.Ledger(ctx, r.q.Sale, func(res Reservation) error {
		k, ok := keyOf(r.q.Sale, res.ID)
		f := r.known[k]
		if !ok || !behind(f) && !f.touched {
			return nil
		}
		f.touched, f.archive = false, f.ledger // a walk may give it twice
		r.known[k] = f
		if slice = append(slice, res); len(slice) == ArchiveSlice {
			return save()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return save()
}

// saveSlice saves the rows one by one when the archive refuses them together,
// so that one too many keeps no other out.
func (r *reconcile) saveSlice(ctx context.Context, rows []Reservation) error {
	err := r.save(ctx, rows)
	if !errors.Is(err, ErrOversold) {
		return err
	}
	for i := range rows {
		err := r.save(ctx, rows[i:i+1])
		switch {
		case errors.Is(err, ErrOversold):
			r.refused++
			r.add(Difference{
				Kind: KindArchiveRefuses, Reservation: rows[i].ID, Ledger: string(rows[i].State), User: rows[i].User,
				Quantity: rows[i].Quantity, Order: rows[i].ShopOrder, Shop: "?", Error: err.Error(),
			})
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *reconcile) save(ctx context.Context, rows []Reservation) error {
	_, err := r.repeat(ctx, func() (Reservation, error) { return Reservation{}, r.q.Archive.Save(ctx, r.plan, rows) })
	return err
}
