package inventory

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

const (
	lookChunk   = 64 // cases that are read again together
	lookWorkers = 8  // of them at once
	// maxSilent is after how many questions in a row without an answer the shop
	// is not asked any more.
	maxSilent = 16
)

// candidate is a reservation that looks wrong. Low ranks come first.
type candidate struct {
	key  key
	rank int
}

// suspect says whether a reservation must be looked into, and when.
func (r *reconcile) suspect(f facts) (rank int, yes bool) {
	if !r.report.Listed && r.asking {
		return r.askable(f)
	}
	v := r.rules.judge(f)
	return v.rank(), !v.isNothing()
}

// askable: without a list, any answer of the shop may show a difference. Those
// that hold units, or may have lost theirs, are asked about first.
func (r *reconcile) askable(f facts) (rank int, yes bool) {
	switch f.ledger.state {
	case isReserved:
		rank = 2
		if f.due {
			rank = 0
		}
	case noRecord:
		rank = 1
	case isExpired:
		rank = 3
	case isConfirmed:
		rank = 4
	default:
		rank = 5
	}
	for _, f.shop = range []shopNo{shopNone, shopPlaced, shopPaid, shopCancelled} {
		if !r.rules.judge(f).isNothing() {
			return rank, true
		}
	}
	return rank, false
}

// candidates are at most MaxCases; the others are counted.
func (r *reconcile) candidates() []candidate {
	var all []candidate
	for k, f := range r.known {
		rank, yes := r.suspect(f)
		if !yes {
			continue
		}
		if _, kept := r.rows[k]; f.seen && !kept {
			r.report.More++
			continue
		}
		all = append(all, candidate{k, rank})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return bytes.Compare(a.key[:], b.key[:])
	})
	if len(all) > MaxCases {
		r.report.More += int64(len(all) - MaxCases)
		all = all[:MaxCases]
	}
	return all
}

// lookInto reads each candidate again, says what is wrong, and then applies:
// what gives units back before what needs some.
func (r *reconcile) lookInto(ctx context.Context) error {
	var wrong []look
	for chunk := range slices.Chunk(r.candidates(), lookChunk) {
		looks := r.lookAll(ctx, chunk)
		for i := range looks {
			if err := r.hear(&looks[i]); err != nil {
				return err
			}
			if l := looks[i]; !l.verdict.isNothing() { // else it was on its way
				wrong = append(wrong, l)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(wrong, func(a, b look) int { return a.verdict.rank() - b.verdict.rank() })
	for i := range wrong {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.settle(ctx, &wrong[i])
	}
	return nil
}

// look is one reservation, read again.
type look struct {
	key             key
	id              string
	facts           facts
	verdict         verdict
	ledger, archive Reservation
	shop            ShopOrder
	also            string // a second order of it
	asked, has      bool
	answer          ShopOrder
	askErr, err     error
}

func (r *reconcile) lookAll(ctx context.Context, chunk []candidate) []look {
	looks := make([]look, len(chunk))
	slots := make(chan struct{}, lookWorkers)
	var all sync.WaitGroup
	for i, c := range chunk {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			looks[i] = r.look(ctx, c.key)
		})
	}
	all.Wait()
	return looks
}

// look asks the ledger before the shop: a "no" of the shop is then younger than
// the sale it contradicts.
func (r *reconcile) look(ctx context.Context, k key) look {
	l := look{key: k, id: k.id(r.q.Sale)}
	if l.ledger, l.err = orNone(r.q.Books.Find(ctx, l.id)); l.err != nil {
		return l
	}
	if r.archives() {
		if l.archive, l.err = orNone(r.q.Archive.Find(ctx, l.id)); l.err != nil {
			return l
		}
	}
	if l.asked = r.asking; l.asked {
		l.answer, l.has, l.askErr = r.q.Orders.Lookup(ctx, Reservation{ID: l.id, Sale: r.q.Sale, Item: r.plan.Item})
	}
	return l
}

// orNone makes an unknown reservation the zero one.
func orNone(res Reservation, err error) (Reservation, error) {
	if errors.Is(err, ErrUnknownReservation) {
		return Reservation{}, nil
	}
	return res, err
}

// hear counts the answer and lays all that is known together.
func (r *reconcile) hear(l *look) error {
	switch {
	case l.err != nil:
		return l.err
	case errors.Is(l.askErr, ErrNoLookup):
		l.asked, r.asking = false, false
	case l.asked:
		r.report.Asked++
		r.silent++
		if l.askErr == nil {
			r.silent = 0
		} else {
			r.report.Unanswered++
		}
		r.asking = r.asking && r.silent < maxSilent
	}
	scanned := r.known[l.key]
	f := facts{double: scanned.double}
	if l.ledger.ID != "" {
		f.ledger = sideOf(l.ledger)
		f.setTimes(l.ledger, r.report.At)
	}
	if l.archive.ID != "" {
		if f.archive = sideOf(l.archive); l.ledger.ID == "" {
			f.setTimes(l.archive, r.report.At)
		}
	}
	row := r.rows[l.key]
	l.shop, l.also = row.ShopOrder, row.also
	said := r.shopSays(l, scanned, f.ledger.state)
	f.setShop(l.shop, r.plan)
	f.shop = said
	l.facts, l.verdict = f, r.rules.judge(f)
	return nil
}

// shopSays joins the list, read before, and the answer, asked now.
func (r *reconcile) shopSays(l *look, scanned facts, ledger stateNo) shopNo {
	listed, _ := shopNumber(l.shop.State)
	switch {
	case !l.asked || l.askErr != nil:
		switch {
		case ledger != scanned.ledger.state:
			return shopUnknown // it moved on since the list was read
		case listed == shopUnknown && !l.asked && scanned.shop == shopNone:
			return shopNone
		}
		return listed
	case !l.has && listed.stands():
		return shopUnclear
	case !l.has && listed == shopCancelled:
		return shopCancelled
	case !l.has:
		return shopNone
	}
	said, told := shopNumber(l.answer.State)
	if listed == shopCancelled && (!told || r.q.Given != nil) || r.givenIsSilent(scanned, ledger) {
		return shopUnclear
	}
	if !told && listed.stands() {
		said = listed
	} else if !told {
		said = shopPlaced
	}
	l.shop = merged(l.shop, l.answer, l.id, said.name())
	return said
}

// givenIsSilent: the shop stands by an order that the whole list, given by a
// person, does not name, though it was sold when the ledger was read.
func (r *reconcile) givenIsSilent(scanned facts, ledger stateNo) bool {
	return r.q.Given != nil && scanned.shop == shopNone && !scanned.seen && ledger == isConfirmed && ledger == scanned.ledger.state
}

// merged lays an answer over a row of the list.
func merged(row, answer ShopOrder, id, state string) ShopOrder {
	row.Reservation, row.State = id, state
	if answer.Order != "" {
		row.Order = answer.Order[:min(len(answer.Order), maxOrderName)]
	}
	if answer.User != "" {
		row.User = answer.User
	}
	if answer.Quantity > 0 {
		row.Quantity = answer.Quantity
	}
	return row
}
