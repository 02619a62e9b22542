package blacklist

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keptChanges bounds the stream; a replica further behind reloads whole.
	keptChanges = 10_000
	// changesPerRead bounds one answer of the stream.
	changesPerRead = 512
	// scanCount is the HSCAN hint: ~0.3 ms of Redis a step.
	scanCount = 1000
)

var (
	//go:embed lua/put.lua
	putSource string
	//go:embed lua/remove.lua
	removeSource string
	//go:embed lua/sweep.lua
	sweepSource string
)

// store is the list as Redis keeps it. It holds no state of its own.
type store struct {
	redis              redis.UniversalClient
	put, remove, sweep *redis.Script
}

func newStore(client redis.UniversalClient) store {
	return store{
		redis:  client,
		put:    redis.NewScript(putSource),
		remove: redis.NewScript(removeSource),
		sweep:  redis.NewScript(sweepSource),
	}
}

// mark names a point in the life of the list.
type mark struct {
	epoch string
	seq   int64
}

// change is one step of the list: entry is nil for a removal. A broken one is
// an entry that this version cannot read.
type change struct {
	seq    int64
	field  string
	entry  *Entry
	broken bool
}

func (s store) keys() []string {
	return []string{metaKey(), entriesKey(), expiryKey(), changesKey()}
}

// write stores e and returns the mark it got. ErrTooMany, ErrUnavailable.
func (s store) write(ctx context.Context, e Entry, most int, epoch string) (mark, error) {
	e.Seq = 0
	text, err := json.Marshal(e)
	if err != nil {
		return mark{}, fmt.Errorf("encoding entry: %w", err)
	}
	var ends int64
	if !e.Until.IsZero() {
		ends = e.Until.UnixMilli()
	}
	got, err := s.put.Run(ctx, s.redis, s.keys(), fieldOf(e.Scope, e.Value), text, ends,
		most, keptChanges, nudgeChannel(), epoch).Slice()
	if err != nil {
		return mark{}, unavailable("writing entry", err)
	}
	seq, _ := got[0].(int64)
	if seq == -1 {
		return mark{}, fmt.Errorf("%w: %v entries, at most %d", ErrTooMany, got[1], most)
	}
	kept, _ := got[1].(string)
	return mark{epoch: kept, seq: seq}, nil
}

// take removes an entry; found is false when there was none.
func (s store) take(ctx context.Context, field string) (m mark, c change, found bool, err error) {
	got, err := s.remove.Run(ctx, s.redis, s.keys(), field, keptChanges, nudgeChannel()).Slice()
	if err != nil {
		return mark{}, change{}, false, unavailable("removing entry", err)
	}
	seq, _ := got[0].(int64)
	if seq == 0 {
		return mark{}, change{}, false, nil
	}
	epoch, _ := got[1].(string)
	stored, _ := got[2].(string)
	return mark{epoch: epoch, seq: seq}, decode(field, stored), true, nil
}

// clean removes up to most entries that ended longer than grace ago.
func (s store) clean(ctx context.Context, most int, grace time.Duration) (int, error) {
	n, err := s.sweep.Run(ctx, s.redis, s.keys(), most, grace.Milliseconds(), keptChanges, nudgeChannel()).Int()
	if err != nil {
		return 0, unavailable("removing expired entries", err)
	}
	return n, nil
}

// mark reads how far the list is. A list never written has the zero mark.
func (s store) mark(ctx context.Context) (mark, error) {
	got, err := s.redis.HMGet(ctx, metaKey(), "seq", "epoch").Result()
	if err != nil {
		return mark{}, unavailable("reading sequence", err)
	}
	var m mark
	if text, ok := got[0].(string); ok {
		if m.seq, err = strconv.ParseInt(text, 10, 64); err != nil {
			return mark{}, fmt.Errorf("reading sequence %q: %w", text, err)
		}
	}
	m.epoch, _ = got[1].(string)
	return m, nil
}

// after reads the changes that follow seq, at most changesPerRead.
func (s store) after(ctx context.Context, seq int64) ([]change, error) {
	messages, err := s.redis.XRangeN(ctx, changesKey(), strconv.FormatInt(seq+1, 10), "+", changesPerRead).Result()
	if err != nil {
		return nil, unavailable("reading changes", err)
	}
	changes := make([]change, 0, len(messages))
	for _, m := range messages {
		number, _, _ := strings.Cut(m.ID, "-")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading change %q: %w", m.ID, err)
		}
		field, _ := m.Values["field"].(string)
		c := change{field: field}
		if m.Values["op"] == "set" {
			stored, _ := m.Values["entry"].(string)
			c = decode(field, stored)
		}
		c.seq = n
		changes = append(changes, c)
	}
	return changes, nil
}

// all walks every stored entry. An error means that the walk is incomplete.
func (s store) all(ctx context.Context, fn func(change)) error {
	var cursor uint64
	for {
		pairs, next, err := s.redis.HScan(ctx, entriesKey(), cursor, "", scanCount).Result()
		if err != nil {
			return unavailable("reading entries", err)
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			fn(decode(pairs[i], pairs[i+1]))
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// decode reads a stored entry, seq:json. What it cannot read, or what lies
// under a foreign name, it marks broken: skipped and counted, never guessed.
func decode(field, stored string) change {
	c := change{field: field, broken: true}
	number, text, found := strings.Cut(stored, ":")
	if !found {
		return c
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return c
	}
	c.seq = seq
	var e Entry
	if json.Unmarshal([]byte(text), &e) != nil {
		return c
	}
	value, err := Canonical(e.Scope, e.Value)
	if err != nil || fieldOf(e.Scope, value) != field {
		return c
	}
	e.Value, e.Seq = value, seq
	c.entry, c.broken = &e, false
	return c
}

// unavailable keeps the cause for the log and lets callers ask for the kind.
func unavailable(act string, err error) error {
	return fmt.Errorf("%s: %w: %w", act, ErrUnavailable, err)
}
