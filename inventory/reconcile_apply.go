package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// add keeps at most MaxCases differences, and the rest as a number. What is
// said of the whole sale is always kept.
func (r *reconcile) add(d Difference) {
	if len(r.report.Differences) >= MaxCases && d.Reservation != "" {
		r.report.More++
		return
	}
	if d.Remedy == "" {
		d.Remedy, d.Person = remedyOf(d.Kind), true
	}
	d.Count = max(d.Count, 1)
	r.report.Differences = append(r.report.Differences, d)
}

func (r *reconcile) sort() {
	place := func(d Difference) int {
		switch d.Kind {
		case KindOversold:
			return 0
		case KindArchiveBehind:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(r.report.Differences, func(a, b Difference) int {
		return cmp.Or(place(a)-place(b), cmp.Compare(a.Reservation, b.Reservation))
	})
}

// settle reports one reservation and applies its remedy.
func (r *reconcile) settle(ctx context.Context, l *look) {
	v := l.verdict
	d := Difference{
		Kind: v.kind, Reservation: l.id, Ledger: string(l.facts.ledger.state.name()), Archive: string(l.facts.archive.state.name()),
		Shop: l.facts.shop.name(), User: cmp.Or(l.ledger.User, l.archive.User, l.shop.User),
		Quantity: cmp.Or(l.ledger.Quantity, l.archive.Quantity, l.shop.Quantity), Order: cmp.Or(l.shop.Order, l.ledger.ShopOrder, l.archive.ShopOrder),
	}
	if l.facts.double {
		d.Order = strings.TrimPrefix(l.shop.Order+", "+l.also, ", ")
	}
	words := make([]string, len(v.steps))
	for i, s := range v.steps {
		words[i] = s.words()
	}
	d.Remedy = strings.Join(words, " ")
	if r.q.Apply && len(v.steps) > 0 {
		r.apply(ctx, l, v, &d)
	}
	r.add(d)
}

func (r *reconcile) apply(ctx context.Context, l *look, v verdict, d *Difference) {
	for _, s := range v.steps {
		res, err := r.repeat(ctx, func() (Reservation, error) { return r.take(ctx, l, s) })
		if err != nil {
			d.Error = err.Error()
			if errors.Is(err, ErrDeficit) || errors.Is(err, ErrOversold) {
				d.Kind, d.Remedy, d.Person = KindDeficit, remedyOf(KindDeficit), true
			}
			return
		}
		d.Now = res.State
		f := r.known[l.key]
		f.touched = true
		r.known[l.key] = f
	}
	d.Applied = true
}

const applyTries = 3

// repeat asks again when an answer was lost: every step gives the earlier
// answer then.
func (r *reconcile) repeat(ctx context.Context, take func() (Reservation, error)) (res Reservation, err error) {
	for range applyTries {
		res, err = take()
		lost := errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable)
		if !lost || ctx.Err() != nil {
			break
		}
	}
	return res, err
}

func (r *reconcile) take(ctx context.Context, l *look, s step) (Reservation, error) {
	b, sale := r.q.Books, r.q.Sale
	switch s {
	case stepAccept:
		return b.Accept(ctx, sale, l.id, 0, l.shop.Order)
	case stepConfirm:
		return b.Confirm(ctx, sale, l.id, 0, l.shop.Order)
	case stepRelease:
		if r.rules.gone && l.facts.ledger.state == isConfirmed && r.q.Archive != nil {
			return r.q.Archive.Settle(ctx, l.id, Returned, 0, "")
		}
		return b.Release(ctx, sale, l.id, 0)
	case stepExpire:
		if r.rules.gone { // the archive knows no deadline, and it is over
			return b.Release(ctx, sale, l.id, 0)
		}
		return b.Expire(ctx, sale, l.id)
	case stepRestoreReserved:
		return r.restore(ctx, r.restored(l, Reserved))
	case stepRestoreConfirmed:
		return r.restore(ctx, r.restored(l, Confirmed))
	}
	return Reservation{}, fmt.Errorf("step %d is none", s)
}

func (r *reconcile) restore(ctx context.Context, res Reservation) (Reservation, error) {
	if !r.rules.gone {
		return r.q.Books.Restore(ctx, res)
	}
	if r.q.Archive == nil {
		return Reservation{}, fmt.Errorf("the ledger is gone and there is no archive: %w", ErrUnavailable)
	}
	return res, r.q.Archive.Save(ctx, r.plan, []Reservation{res})
}

// restored is the record as it was, as far as archive and shop tell.
func (r *reconcile) restored(l *look, state State) Reservation {
	res := l.archive
	if res.ID == "" {
		res = Reservation{
			ID: l.id, Sale: r.q.Sale, Item: r.plan.Item, Quantity: l.shop.Quantity,
			ReservedAt: r.report.At, ExpiresAt: r.report.At.Add(r.plan.Hold), Attempt: 1,
		}
		if l.key.ofUser(l.shop.User) { // else it is the shop's name for somebody without one here
			res.User = l.shop.User
		}
	}
	res.State, res.Stuck = state, false
	if l.shop.Order != "" {
		res.ShopOrder = l.shop.Order
	}
	if state == Confirmed || l.facts.shop.stands() {
		res.AttemptUntil = time.Time{}
	}
	return res
}
