package inventory

import (
	"context"
	"errors"
	"fmt"
)

// What settle scripts answer; reserve speaks in Code.
const (
	answerOK         = 0
	answerUnknown    = 1
	answerNotAllowed = 2
	answerOver       = 3
	answerShort      = 4 // too few free here, other buckets may be asked
	answerDeficit    = 5
)

// reply is the answer of a bucket script: {code, run, seq, epoch, …}.
type reply struct {
	code  int64
	run   string
	seq   int64
	epoch int64 // Redis time from which the bucket's times count, ms
	rest  []any
}

func parseReply(name string, v any) (reply, error) {
	f, ok := v.([]any)
	if !ok || len(f) < 4 {
		return reply{}, unreadableReply(name, v)
	}
	code, ok1 := f[0].(int64)
	run, ok2 := f[1].(string)
	seq, ok3 := f[2].(int64)
	epoch, ok4 := f[3].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return reply{}, unreadableReply(name, v)
	}
	return reply{code: code, run: run, seq: seq, epoch: epoch, rest: f[4:]}, nil
}

func unreadableReply(name string, v any) error {
	return fmt.Errorf("%s: %w: answered %v", name, ErrOutcomeUnknown, v)
}

func (r reply) any(i int) any {
	if i < len(r.rest) {
		return r.rest[i]
	}
	return nil
}

func (r reply) text(i int) string {
	t, _ := r.any(i).(string)
	return t
}

func (r reply) number(i int) int64 {
	n, _ := r.any(i).(int64)
	return n
}

// onBucket runs a script on one bucket of the sale, which choose picks among
// those of the generation in force. When the bucket is armed under another
// server run, or is of another generation than this replica believed, it mends
// that and tries once more; still stale is ErrUnavailable. No bucket at all
// comes back as code -1.
func (s *Store) onBucket(ctx context.Context, sale string, choose func(*live) *cell, sc *script, args ...any) (reply, *entry, *cell, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return reply{}, nil, nil, err
	}
	if len(e.cells) == 0 { // only the archive knows it
		return reply{code: int64(NotPreheated)}, e, nil, nil
	}
	c := choose(e.live)
	r, err := s.runOn(ctx, e, c, sc, args)
	if err != nil || (r.code != int64(Stale) && r.code != int64(NotPreheated)) {
		return r, e, c, err
	}
	mended, err := s.mend(ctx, e, c, r)
	if err != nil || mended == nil {
		return r, e, c, err
	}
	c = choose(mended.live)
	r, err = s.runOn(ctx, mended, c, sc, args)
	if err == nil && r.code == int64(Stale) {
		err = staysStale(sc.name, r)
	}
	return r, mended, c, err
}

func staysStale(name string, r reply) error {
	return fmt.Errorf("%s: %w: the bucket stays stale (%s)", name, ErrUnavailable, r.text(0))
}

// mend arms a bucket under a new server run, or looks for the generation in
// force. It returns where to ask again; nil when there is no such stock. The
// script that found the bucket stale was not executed, whatever becomes of this.
func (s *Store) mend(ctx context.Context, e *entry, c *cell, r reply) (*entry, error) {
	stale := func(err error) error { return fmt.Errorf("%w: the bucket is stale: %v", ErrUnavailable, err) }
	if r.code == int64(Stale) && r.text(0) == "run" {
		if err := s.rearm(ctx, e, c); err != nil {
			return nil, stale(err)
		}
	} else if err := s.Refresh(ctx); err != nil {
		return nil, stale(err)
	}
	again, err := s.entry(ctx, e.view.Sale.ID)
	gone := errors.Is(err, ErrUnknownSale)
	if err != nil && !gone {
		return nil, err
	}
	if r.code == int64(NotPreheated) && (gone || again.view.Generation == e.view.Generation) {
		if gone || !again.gone() {
			s.alarm(e, noStock)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return again, nil
}

// runOn runs a bucket script there and notes how far the bucket is.
func (s *Store) runOn(ctx context.Context, e *entry, c *cell, sc *script, args []any) (reply, error) {
	head := make([]any, 0, 3+len(args))
	head = append(head, s.fence(), c.generation, s.touch())
	v, err := s.runSafely(ctx, sc, c.all, append(head, args...))
	if err != nil {
		return reply{}, err
	}
	r, err := parseReply(sc.name, v)
	if err == nil {
		c.watch.saw(r.run, r.seq)
	}
	return r, err
}

// runArmed is runOn for what no order asks for: it arms the bucket under a new
// server run and tries once more.
func (s *Store) runArmed(ctx context.Context, e *entry, c *cell, sc *script, args []any) (reply, error) {
	r, err := s.runOn(ctx, e, c, sc, args)
	if err != nil || r.code != int64(Stale) || r.text(0) != "run" {
		return r, err
	}
	if err := s.rearm(ctx, e, c); err != nil {
		return reply{}, fmt.Errorf("%s: %w: arming the bucket: %v", sc.name, ErrUnavailable, err)
	}
	return s.runOn(ctx, e, c, sc, args)
}

// fence is ARGV[1] of the bucket scripts.
func (s *Store) fence() string {
	if s.memory {
		return "0"
	}
	return "1"
}

// touch is ARGV[3]: with WAIT, an answer that changes nothing must still cover
// the earlier changes that it tells of.
func (s *Store) touch() string {
	if s.wait.Replicas > 0 {
		return "1"
	}
	return "0"
}
