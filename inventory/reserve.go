package inventory

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// maxUser bounds what a user's name may cost in the ledger, in bytes.
const maxUser = 256

// maxName is the length of the longest item that a sale may have, in bytes.
const maxName = 64

var kindPattern = regexp.MustCompile(`^[a-z0-9-]{0,16}$`)

// check refuses what no script would take, before anything is sent.
func (o *Order) check() error {
	bad := func(text string) error { return fmt.Errorf("%w: %s", ErrInvalidOrder, text) }
	switch {
	case !ValidOrderID(o.ID) || !isOfSale(o.ID, o.Sale):
		return bad("the id is not one of this sale")
	case len(o.Item) > maxName:
		return bad("the item is longer than 64 bytes")
	case len(o.User) > maxUser:
		return bad("the user is longer than 256 bytes")
	case o.Quantity < 1 || o.Quantity > maxUnits:
		return bad("the quantity must be 1 or more")
	case o.AttemptFor < 1e6:
		return bad("the attempt must last 1ms or more")
	case o.Kind != "" && !kindPattern.MatchString(o.Kind):
		return bad("the kind must be up to 16 of a-z 0-9 -")
	}
	return nil
}

// answer is what a flight brought one order: Code and its two companions, see
// lua/reserve.lua, and how far the bucket was. A win has times instead of a record.
type answer struct {
	code          int64
	record        string
	number        int64
	now, deadline int64
	reply         reply // without its rest
}

// What reserve.lua answers beside the Codes.
const (
	notOfSale  = -8
	unreadable = -9
	settling   = -10
)

// Reserve takes units for the order, or answers what became of it. Orders of
// one bucket that come at the same time share a script. It is safe to repeat
// with the same id; it never repeats by itself what may have been executed.
// Errors: ErrInvalidOrder, ErrUnknownSale, ErrUnavailable (not executed),
// ErrOutcomeUnknown (perhaps executed). Codes -1 … -7 come without an error.
//
// With a share configured, an order for which this replica has no share left is
// answered NoneFreeNow or NotEnough from memory, unless this replica has seen
// its id before.
func (s *Store) Reserve(ctx context.Context, o Order) (Result, error) {
	if err := o.check(); err != nil {
		return Result{}, err
	}
	e, err := s.entry(ctx, o.Sale)
	if err != nil {
		return Result{}, err
	}
	if e.gone() && s.archive != nil {
		return s.reserveArchived(ctx, o)
	}
	spent, from, err := s.admit(ctx, e, &o)
	if err != nil || from != nil {
		return orZero(from), err
	}
	if spent != nil {
		e = spent
	}
	res, err := s.reserve(ctx, e, o)
	for n := 0; errors.Is(err, errSettling) && n < settleTries && s.pauseToSettle(ctx); n++ {
		res, err = s.reserve(ctx, e, o)
	}
	if spent != nil {
		spent.settleShare(o.Quantity, res, err, s.nano())
	}
	return res, err
}

// errSettling: not executed, since other replicas still look at what a server
// that restarted has left; see settling.
var errSettling = fmt.Errorf("Redis restarted, and other replicas still compare its stock: %w", ErrUnavailable)

// settleTries is how often an order that meets such a bucket asks again, each
// time after half of a refresh: once and a half as long as that lasts.
const settleTries = 12

// pauseToSettle waits for the next try; false when the order's time is over.
func (s *Store) pauseToSettle(ctx context.Context) bool {
	t := time.NewTimer(s.every / 2)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func orZero(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// reserve asks the home bucket, mends what makes it stale and tries once more,
// and joins the line for other buckets' units when it is dry.
func (s *Store) reserve(ctx context.Context, e *entry, o Order) (Result, error) {
	before := s.nano()
	e.orders.Add(1)
	c := e.home(o.ID)
	a, err := c.flights.carry(ctx, s, newPassenger(o), s.flyTo(e, c))
	if err == nil && (a.code == int64(Stale) || a.code == int64(NotPreheated)) {
		missed := e
		if e, err = s.mend(ctx, e, c, a.reply); err != nil {
			return Result{}, err
		}
		if e == nil {
			if _, ok := s.archived(ctx, o.Sale); ok { // since a moment ago
				return s.reserveArchived(ctx, o)
			}
			s.seen.stale.Add(1)
			missed.missed.Add(1)
			return Result{Code: NotPreheated}, nil
		}
		c = e.home(o.ID)
		a, err = c.flights.carry(ctx, s, newPassenger(o), s.flyTo(e, c))
	}
	if err == nil && a.code == int64(Stale) {
		err = staysStale("reserve", a.reply)
	}
	if err != nil {
		return Result{}, err
	}
	if len(e.cells) > 1 && a.dry() {
		return s.queueUp(ctx, e, o, a)
	}
	res, err := s.result(e, c, o, a)
	if err == nil && res.Code == NotEnough && res.Available == 0 {
		e.markSoldOut(a.reply.seq, e.view.Level.Seq, before)
	}
	return res, err
}

// dry: other buckets may have what this one has not.
func (a answer) dry() bool { return a.code == int64(NotEnough) || a.code == int64(NoneFreeNow) }

// flyTo is one flight to a bucket without a loan.
func (s *Store) flyTo(e *entry, c *cell) fly {
	return func(ctx context.Context, all []*passenger) { s.flight(ctx, e, c, loan{}, all) }
}

// flight runs reserve.lua for these orders and deals out its answers. What
// happens to one order does not touch the others.
func (s *Store) flight(ctx context.Context, e *entry, c *cell, l loan, all []*passenger) {
	s.seen.scripts.Add(1)
	s.seen.orders.Add(int64(len(all)))
	r, err := s.runOn(ctx, e, c, &s.scripts.reserve, flightArgs(e, l, all))
	if err == nil && r.code == 0 {
		if answers, _ := r.any(0).([]any); len(answers) == len(all) {
			deal(r, answers, all)
			return
		}
		err = fmt.Errorf("reserve: %w: %d orders got another number of answers", ErrOutcomeUnknown, len(all))
	}
	for _, p := range all {
		p.answer, p.err = answer{code: r.code, reply: r}, err
	}
}

func flightArgs(e *entry, l loan, all []*passenger) []any {
	args := make([]any, 0, 3+3*len(all))
	args = append(args, l.id, l.units, l.from)
	var last *Order
	var terms any // boxed once for all that are alike
	for _, p := range all {
		o := &p.order
		if last == nil || o.Quantity != last.Quantity || o.AttemptFor != last.AttemptFor || o.Kind != last.Kind || o.Item != last.Item {
			last, terms = o, termsOf(e, o)
		}
		args = append(args, shorten(o.ID), o.User, terms)
	}
	return args
}

// termsOf is what orders of a flight mostly share, see lua/reserve.lua.
func termsOf(e *entry, o *Order) string {
	item := o.Item
	if item == e.view.Sale.Item {
		item = "" // the sale's own needs no words
	}
	return fmt.Sprintf("%d %d %s %s", o.Quantity, o.AttemptFor.Milliseconds(), o.Kind, item)
}

func deal(r reply, answers []any, all []*passenger) {
	now, deadline := r.number(1), r.number(2)
	r.rest = nil // the answers of the others
	for i, p := range all {
		a := answer{reply: r}
		switch v := answers[i].(type) {
		case int64:
			a.code, a.number, a.now, a.deadline = int64(Taken), v, now, deadline
			if v == 0 {
				a.code = int64(TakenLast)
			}
		case []any:
			if len(v) == 3 {
				a.code, _ = v[0].(int64)
				a.record, _ = v[1].(string)
				a.number, _ = v[2].(int64)
				break
			}
			p.err = errNoAnswer(p)
		default:
			p.err = errNoAnswer(p)
		}
		p.answer = a
	}
}

func errNoAnswer(p *passenger) error {
	return fmt.Errorf("reserve %s: %w: its answer cannot be read", p.order.ID, ErrOutcomeUnknown)
}

// result translates an answer.
func (s *Store) result(e *entry, c *cell, o Order, a answer) (Result, error) {
	switch a.code {
	case notOfSale:
		return Result{}, fmt.Errorf("%w: item, quantity or attempt is outside the plan", ErrInvalidOrder)
	case unreadable:
		return Result{}, fmt.Errorf("reserve %s: its ledger record cannot be read: %w", o.ID, ErrUnavailable)
	}
	if a.code == settling {
		return Result{}, fmt.Errorf("reserve %s: %w", o.ID, errSettling)
	}
	res := Result{Code: Code(a.code)}
	switch res.Code {
	case Known:
		res.Granted = a.number == 1
	case Taken, TakenLast:
		res.Granted, res.Reservation = true, won(e, c, &o, &a)
	case NotEnough:
		res.Available = a.number
	case NoneFreeNow:
		if a.number != 0 {
			res.Until = msTime(a.reply.epoch + a.number)
		}
	}
	if a.record != "" {
		var err error
		if res.Reservation, err = recordOf(e, c, a.reply.epoch, o.ID, a.record); err != nil {
			return Result{}, fmt.Errorf("reserve: %w: %w", ErrOutcomeUnknown, err)
		}
	}
	if res.Code == Taken || res.Code == TakenLast || (res.Code == Known && res.Reservation.State == Reserved) {
		c.recent.add(res.Reservation, s.nano())
	}
	return res, nil
}

// won is the reservation that reserve.lua has just made of the order.
func won(e *entry, c *cell, o *Order, a *answer) Reservation {
	epoch := a.reply.epoch
	return Reservation{
		ID: o.ID, Sale: e.view.Sale.ID, Item: e.view.Sale.Item, Bucket: c.index, User: o.User, Kind: o.Kind,
		Quantity: o.Quantity, State: Reserved, ReservedAt: msTime(epoch + a.now), ExpiresAt: msTime(epoch + a.deadline),
		Attempt: 1, AttemptUntil: msTime(epoch + a.now + o.AttemptFor.Milliseconds()),
	}
}
