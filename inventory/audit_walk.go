package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

const (
	// drainEvery is after how many fields of a walk it hears what changed: often
	// enough for the listening not to run out.
	drainEvery = 64 * scanCount
	// maxHeard bounds the changes that one script tells.
	maxHeard = 512
	// answerMissed: the list of changes was not kept.
	answerMissed = 6
)

// books are one bucket's, as they stood at one moment.
type books struct {
	records map[string]booked
	counted map[string]int64 // user -> units that count to his limit, as the scripts counted
	level   BucketLevel
	at      int64 // Redis time of that moment, ms
}

// booked is what the sums need of a reservation.
type booked struct {
	state    State
	quantity int64
	user     string
	attempt  int
	open     bool // that attempt is
}

func (b *books) note(r Reservation) {
	b.records[r.ID] = booked{state: r.State, quantity: r.Quantity, user: r.User, attempt: r.Attempt, open: !r.AttemptUntil.IsZero()}
}

func (b *books) count(user, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("units of buyer %q: unreadable: %q", user, text)
	}
	b.counted[user] = n
	return nil
}

// proveBucket adds a bucket's books up as they stood at one moment; false when
// that did not come off.
func (s *Store) proveBucket(ctx context.Context, e *entry, c *cell) (b *books, proved bool, err error) {
	for n := 0; n < auditTries && !proved; n++ {
		if b, proved, err = s.walkBooks(ctx, e, c); err != nil {
			return nil, false, err
		}
	}
	return b, proved, nil
}

// walkBooks reads ledger and buyers in slices. A slice shows each field as it
// stands when it is read; what changed afterwards is read once more, at the end
// together with the counters and in one script.
func (s *Store) walkBooks(ctx context.Context, e *entry, c *cell) (b *books, proved bool, err error) {
	b = &books{records: map[string]booked{}, counted: map[string]int64{}}
	l, err := s.listen(ctx, e, c)
	if err != nil {
		return nil, false, err
	}
	walked := 0
	step := func() error {
		if walked++; walked%drainEvery != 0 {
			return nil
		}
		return l.drain(ctx, b)
	}
	err = s.ledgerOf(ctx, e, c, func(r Reservation) error {
		b.note(r)
		return step()
	})
	if err != nil {
		return nil, false, err
	}
	err = s.scan(ctx, c.buyersKey(), func(user, text string) error {
		return errors.Join(b.count(user, text), step())
	})
	if err != nil {
		return nil, false, err
	}
	proved, err = l.end(ctx, b)
	return b, proved, err
}

// listener hears which orders of a bucket change.
type listener struct {
	s     *Store
	e     *entry
	c     *cell
	id    string // of this listening, see lua/audit.lua; "" = the bucket takes no writes
	run   string // the server run that it began under
	place int64
	quiet *head // with id "": how the bucket was before the walk
	lost  bool  // what changed is no longer known
}

// listen begins before the walk. A bucket that takes no writes, as when its
// master misses its replicas, is walked all the same: nothing changes there.
func (s *Store) listen(ctx context.Context, e *entry, c *cell) (*listener, error) {
	l := &listener{s: s, e: e, c: c}
	r, err := s.hear(ctx, c, "", 0)
	switch {
	case err == nil:
		l.id, l.run, l.place = r.text(0), r.run, r.number(1)
		return l, nil
	case errors.Is(err, errMissed):
		l.lost = true
		return l, nil
	case !errors.Is(err, ErrUnavailable):
		return nil, err
	}
	l.quiet, err = s.readHead(ctx, c)
	return l, err
}

// errMissed: the walk has to begin again.
var errMissed = errors.New("the changes of this bucket were not kept")

// hear runs audit.lua once.
func (s *Store) hear(ctx context.Context, c *cell, id string, place int64) (reply, error) {
	v, err := s.run(ctx, &s.scripts.audit, c.all, "0", c.generation, "0", id, place, maxHeard)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %v", ErrUnavailable, err) // a reading: whether it was executed matters to nobody
	}
	r, err := parseReply("audit", v)
	switch {
	case err != nil:
		return reply{}, err
	case r.code == int64(NotPreheated):
		return reply{}, errNoBucket(c.sale)
	case r.code == int64(Stale):
		return reply{}, fmt.Errorf("another generation is in force: %w", ErrUnavailable)
	case r.code == answerMissed:
		return reply{}, errMissed
	}
	return r, nil
}

// drain reads again what changed so far.
func (l *listener) drain(ctx context.Context, b *books) error {
	for left := int64(1); left > 0 && l.id != "" && !l.lost; {
		r, err := l.s.hear(ctx, l.c, l.id, l.place)
		if errors.Is(err, errMissed) || (err == nil && r.run != l.run) {
			l.lost = true
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.take(r, b); err != nil {
			return err
		}
		l.place, left = r.number(1), r.number(4)
	}
	return nil
}

// take lays what a script told over what the walk saw.
func (l *listener) take(r reply, b *books) error {
	texts := func(i int) []any { all, _ := r.any(i).([]any); return all }
	orders, users, counters := texts(2), texts(3), texts(5)
	for i := 0; i+1 < len(orders); i += 2 {
		id, _ := orders[i].(string)
		text, _ := orders[i+1].(string)
		res, err := parseRecord(l.e, l.c, r.epoch, id, text)
		if err != nil {
			return err
		}
		b.note(res)
	}
	for i := 0; i+1 < len(users); i += 2 {
		user, _ := users[i].(string)
		text, _ := users[i+1].(string)
		if err := b.count(user, text); err != nil {
			return err
		}
	}
	n := make([]int64, 6)
	for i := range min(len(n), len(counters)) {
		n[i], _ = counters[i].(int64)
	}
	b.at = r.number(6)
	b.level = BucketLevel{
		Index: l.c.index, Tag: l.c.tag, Run: r.run, Seq: r.seq,
		Planned: n[0], LentIn: n[1], LentOut: n[2], Free: n[3], Reserved: n[4], Confirmed: n[5],
	}
	return nil
}

// end says whether the books are those of one moment.
func (l *listener) end(ctx context.Context, b *books) (proved bool, err error) {
	if l.id != "" {
		err := l.drain(ctx, b)
		return err == nil && !l.lost, err
	}
	h, err := l.s.readHead(ctx, l.c)
	if err != nil {
		return false, err
	}
	b.level, b.at = h.level, h.at
	return !l.lost && equalVersions([]*head{l.quiet}, []*head{h}), nil
}
