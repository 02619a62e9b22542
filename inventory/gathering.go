package inventory

import (
	"cmp"
	"context"
	"slices"
)

// gathering is one pass of the gatherer: it reads all levels, moves stock to
// where orders wait, and has them carried along with what arrives.
type gathering struct {
	s       *Store
	e       *entry
	waiting []*waiter
	heads   []*head // the levels, kept up as stock moves
	failed  error   // the last lend that failed
}

// pass serves everybody in hand: with an answer, or back into the line.
func (g *gathering) pass(ctx context.Context) {
	first := g.s.nano()
	heads, err := g.s.readHeads(ctx, g.e.live)
	if err != nil {
		g.giveUp(err)
		return
	}
	g.heads = heads
	for _, at := range g.poor() {
		g.serve(ctx, at)
	}
	if len(g.waiting) == 0 {
		return
	}
	again, err := g.s.readHeads(ctx, g.e.live)
	if err != nil {
		g.giveUp(err)
		return
	}
	told, back := g.decide(again, equalVersions(heads, again), first)
	g.waiting = told
	g.lastLook(ctx)
	g.e.line.back(back)
}

// giveUp tells those who are left to come again: nothing was taken for them.
func (g *gathering) giveUp(err error) {
	for _, w := range g.waiting {
		w.err = mapRead(err)
		close(w.done)
	}
	g.waiting = nil
}

// poor are the buckets where orders wait, in the order of their first one.
func (g *gathering) poor() []int {
	var all []int
	for _, w := range g.waiting {
		if !slices.Contains(all, w.home) {
			all = append(all, w.home)
		}
	}
	return all
}

// here takes out who waits at a bucket.
func (g *gathering) here(at int) []*waiter {
	var mine, rest []*waiter
	for _, w := range g.waiting {
		if w.home == at {
			mine = append(mine, w)
		} else {
			rest = append(rest, w)
		}
	}
	g.waiting = rest
	return mine
}

// serve brings units to one bucket and sends its orders along. Who is still
// dry afterwards is in hand again.
func (g *gathering) serve(ctx context.Context, at int) {
	mine := g.here(at)
	var need int64
	for _, w := range mine {
		need += w.order.Quantity
	}
	loans := g.borrow(ctx, at, need)
	if len(loans) == 0 && g.heads[at].level.Free == 0 {
		g.waiting = append(g.waiting, mine...)
		return
	}
	c := g.e.cells[at]
	for len(loans) > 1 { // all but the last travel alone
		g.s.flight(ctx, g.e, c, loans[0], nil)
		loans = loans[1:]
	}
	l := loan{}
	if len(loans) == 1 {
		l = loans[0]
	}
	for len(mine) > 0 {
		n := min(len(mine), maxBatch)
		g.send(ctx, c, l, mine[:n])
		mine, l = mine[n:], loan{}
	}
}

// send is one flight of waiters, with or without a loan.
func (g *gathering) send(ctx context.Context, c *cell, l loan, all []*waiter) {
	g.carry(ctx, c, l, all)
	for _, w := range all {
		w.passes++
		if w.err == nil && w.answer.dry() {
			w.told = w.answer
			g.waiting = append(g.waiting, w)
			continue
		}
		close(w.done)
	}
}

// carry has waiters travel together; each has its answer or error then.
func (g *gathering) carry(ctx context.Context, c *cell, l loan, all []*waiter) {
	aboard := make([]*passenger, len(all))
	for i, w := range all {
		aboard[i] = &w.passenger
	}
	g.s.flight(ctx, g.e, c, l, aboard)
	for _, w := range all {
		if w.err == nil && (w.answer.code == int64(Stale) || w.answer.code == int64(NotPreheated)) {
			w.err = staysStale("reserve", w.answer.reply)
		}
	}
}

// borrow has rich buckets lend to a poor one: what its orders need, and at most
// up to an even part of all, so that the next ones find something at home.
func (g *gathering) borrow(ctx context.Context, at int, need int64) []loan {
	var total int64
	for _, h := range g.heads {
		total += h.level.Free
	}
	want := max(need, total/int64(len(g.heads))) - g.heads[at].level.Free
	var loans []loan
	for _, from := range g.rich(at) {
		if want <= 0 {
			break
		}
		// Wanted is all: it lends what it has, and frees what is due for that.
		l := loan{id: newLoanID(), units: want, from: from}
		units, err := g.s.lend(ctx, g.e, l, at, false)
		if err != nil {
			// Lent or not, nobody knows: a refresh sees what is on the road and sends it on.
			g.s.log.Debug("lending", "sale", g.e.view.Sale.ID, "loan", l.id, "error", err)
			g.failed = err
			continue
		}
		g.heads[from].level.Free = max(g.heads[from].level.Free-units, 0)
		if units > 0 {
			l.units = units
			loans, want = append(loans, l), want-units
		}
	}
	return loans
}

// rich are the buckets that may have something for bucket at: free units, the
// most first, then those with holds that are due.
func (g *gathering) rich(at int) []int {
	var all []int
	for i, h := range g.heads {
		if i != at && (h.level.Free > 0 || h.dueNow()) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(g.heads[b].level.Free, g.heads[a].level.Free) })
	return all
}

// decide finds a verdict for who is still dry, by two readings of all buckets.
// Equal versions make them one: nothing moved in between, so nothing was
// overlooked. Who may still be served goes back into the line.
func (g *gathering) decide(heads []*head, still bool, at int64) (told, back []*waiter) {
	sum := addUpLevels(g.e.view.Sale.ID, heads)
	if still && sum.Free == 0 && sum.Reserved == 0 && sum.OnLoan == 0 {
		g.e.sold.Store(&mark{seq: sum.Seq, at: at})
	}
	for _, w := range g.waiting {
		switch {
		case sum.Free >= w.order.Quantity && w.passes < maxPasses, !still && w.passes < maxPasses:
			w.passes++
			back = append(back, w)
			continue
		case sum.Free > 0 && sum.Free < w.order.Quantity:
			w.verdict = answer{code: int64(NotEnough), number: sum.Free}
		case sum.Free == 0 && sum.Reserved == 0 && sum.OnLoan == 0 && still:
			w.verdict = answer{code: int64(NotEnough)}
		default: // also who found enough and lost it to others again and again
			due := earliest(heads)
			if due != 0 {
				due -= w.told.reply.epoch
			}
			w.verdict = answer{code: int64(NoneFreeNow), number: max(due, 0)}
		}
		told = append(told, w)
	}
	return told, back
}

// lastLook tells those in hand their verdict, after asking their home bucket
// once more: an order that came twice may have won through another replica
// since it found nothing there, and nobody whose order has won is told otherwise.
func (g *gathering) lastLook(ctx context.Context) {
	for _, at := range g.poor() {
		for all := range slices.Chunk(g.here(at), maxBatch) {
			g.carry(ctx, g.e.cells[at], loan{}, all)
			for _, w := range all {
				switch {
				case w.err != nil || !w.answer.dry():
				case w.answer.code == int64(NoneFreeNow) && w.verdict.code == int64(NotEnough) && w.verdict.number == 0:
					// Something came back and is held: not sold out after all.
				default:
					w.answer = w.verdict
					w.answer.reply = w.told.reply
				}
				close(w.done)
			}
		}
	}
}

// lend runs lend.lua on the bucket that gives.
func (s *Store) lend(ctx context.Context, e *entry, l loan, to int, again bool) (int64, error) {
	force := "0"
	if again {
		force = "1"
	}
	r, err := s.runArmed(ctx, e, e.cells[l.from], &s.scripts.lend, []any{l.id, l.units, to, force})
	switch {
	case err != nil:
		return 0, err
	case r.code == answerDeficit:
		return r.number(0), errDeficit
	case r.code != 0:
		return 0, staysStale("lend", r)
	}
	s.seen.loans.Add(1)
	s.seen.lentUnits.Add(r.number(0))
	return r.number(0), nil
}
