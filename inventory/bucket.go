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
)

// reply is the answer of a bucket script: {code, run, seq, …}.
type reply struct {
	code int64
	run  string
	seq  int64
	rest []any
}

func parseReply(name string, v any) (reply, error) {
	bad := fmt.Errorf("%s: %w: answered %v", name, ErrOutcomeUnknown, v)
	f, ok := v.([]any)
	if !ok || len(f) < 3 {
		return reply{}, bad
	}
	code, ok1 := f[0].(int64)
	run, ok2 := f[1].(string)
	seq, ok3 := f[2].(int64)
	if !ok1 || !ok2 || !ok3 {
		return reply{}, bad
	}
	return reply{code: code, run: run, seq: seq, rest: f[3:]}, nil
}

func (r reply) text(i int) string {
	if i < len(r.rest) {
		if t, ok := r.rest[i].(string); ok {
			return t
		}
	}
	return ""
}

func (r reply) number(i int) int64 {
	if i < len(r.rest) {
		if n, ok := r.rest[i].(int64); ok {
			return n
		}
	}
	return 0
}

// bucketScript runs a script on the sale's bucket. When the bucket is armed
// under another server run, or is of another generation than this replica
// believed, it mends that and tries once more; still stale is ErrUnavailable.
// No bucket at all comes back as code -1.
func (s *Store) bucketScript(ctx context.Context, sale string, sc *script, args ...any) (reply, *entry, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return reply{}, nil, err
	}
	r, err := s.runOn(ctx, e, sc, args)
	if err != nil || (r.code != int64(Stale) && r.code != int64(NotPreheated)) {
		return r, e, err
	}
	if r.code == int64(Stale) && r.text(0) == "run" {
		err = s.rearm(ctx, e)
	} else {
		err = s.Refresh(ctx)
	}
	if err != nil {
		// %v: whatever became of the mending, the script itself was not executed.
		return r, e, fmt.Errorf("%s: %w: the bucket is stale: %v", sc.name, ErrUnavailable, err)
	}
	again, err := s.entry(ctx, sale)
	if err != nil && !errors.Is(err, ErrUnknownSale) {
		return r, e, err
	}
	if r.code == int64(NotPreheated) && (err != nil || again.view.Generation == e.view.Generation) {
		s.alarm(e, noStock)
		return r, e, nil
	}
	if err != nil {
		return r, e, err
	}
	r, err = s.runOn(ctx, again, sc, args)
	if err == nil && r.code == int64(Stale) {
		err = fmt.Errorf("%s: %w: the bucket stays stale (%s)", sc.name, ErrUnavailable, r.text(0))
	}
	return r, again, err
}

func (s *Store) runOn(ctx context.Context, e *entry, sc *script, args []any) (reply, error) {
	v, err := s.run(ctx, sc, e.keys, append([]any{s.fence(), e.view.Generation}, args...)...)
	if err != nil {
		return reply{}, err
	}
	r, err := parseReply(sc.name, v)
	if err == nil {
		e.watch.saw(r.run, r.seq)
	}
	return r, err
}

// fence is ARGV[1] of the bucket scripts.
func (s *Store) fence() string {
	if s.memory {
		return "0"
	}
	return "1"
}
