package inventory

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// head is a reading of one bucket's counters, from level.lua.
type head struct {
	level          BucketLevel
	at             int64 // Redis time of the reading, ms
	due            int64 // the earliest deadline of a hold, ms; 0 = none
	void           int64
	desired        Desired
	desiredVersion int64
	armed          []int64
	epoch          int64 // ms
}

// dueNow: the next script frees units here.
func (h *head) dueNow() bool { return h.due != 0 && h.due <= h.at && h.level.Reserved > 0 }

// parseHead is nil without an error when the bucket is not there.
func parseHead(c *cell, cmd *redis.Cmd) (*head, error) {
	v, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("reading bucket %d of %s: %w", c.index, c.sale, mapRead(err))
	}
	if len(v) == 0 {
		return nil, nil
	}
	if len(v) != 16 {
		return nil, fmt.Errorf("reading bucket %d of %s: %w: %d fields", c.index, c.sale, ErrUnavailable, len(v))
	}
	text := func(i int) string { t, _ := v[i].(string); return t }
	num := func(i int) int64 { n, _ := strconv.ParseInt(text(i), 10, 64); return n }
	h := &head{epoch: num(15), void: num(5), desired: Desired(text(6)), desiredVersion: num(7)}
	h.at, _ = v[0].(int64)
	h.due, _ = v[1].(int64)
	for _, f := range strings.Fields(text(14)) {
		n, _ := strconv.ParseInt(f, 10, 64)
		h.armed = append(h.armed, n)
	}
	h.level = BucketLevel{
		Index: c.index, Tag: c.tag, Run: text(2), Seq: num(3), Planned: num(8), LentIn: num(9), LentOut: num(10),
		Free: num(11), Reserved: num(12), Confirmed: num(13),
	}
	return h, nil
}

// readHeads reads all buckets of a sale in one round trip to each server. It
// is no snapshot: see equalVersions.
func (s *Store) readHeads(ctx context.Context, l *live) ([]*head, error) {
	return s.readCells(ctx, l.cells)
}

// readHead reads one bucket.
func (s *Store) readHead(ctx context.Context, c *cell) (*head, error) {
	heads, err := s.readCells(ctx, []*cell{c})
	if err != nil {
		return nil, err
	}
	return heads[0], nil
}

func (s *Store) readCells(ctx context.Context, cells []*cell) ([]*head, error) {
	cmds := s.askHeads(ctx, cells)
	heads := make([]*head, len(cells))
	for i, c := range cells {
		h, err := parseHead(c, cmds[i])
		if err != nil {
			return nil, err
		}
		if h == nil {
			return nil, errNoBucket(c.sale)
		}
		heads[i] = h
	}
	return heads, nil
}

// askHeads sends one level.lua per bucket. A failure shows in each command.
func (s *Store) askHeads(ctx context.Context, cells []*cell) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(cells))
	if len(cells) == 0 {
		return cmds
	}
	pipe := s.redis.Pipeline()
	for i, c := range cells {
		// EVAL, because a NOSCRIPT inside a pipeline does not fall back.
		cmds[i] = pipe.Eval(ctx, s.scripts.level.src, c.levelKeys())
	}
	_, _ = pipe.Exec(ctx)
	return cmds
}

// equalVersions: between two readings nothing changed in any bucket, so both
// show the sale as it was at one moment between them.
func equalVersions(a, b []*head) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] == nil || b[i] == nil || a[i].level.Seq != b[i].level.Seq || a[i].level.Run != b[i].level.Run {
			return false
		}
	}
	return true
}

// addUpLevels sums the buckets. What is lent and not yet accepted is on loan.
func addUpLevels(sale string, heads []*head) Level {
	l := Level{Sale: sale, Buckets: make([]BucketLevel, len(heads))}
	var at int64
	for i, h := range heads {
		b := h.level
		l.Buckets[i] = b
		l.Total += b.Planned
		l.Free, l.Reserved, l.Confirmed = l.Free+b.Free, l.Reserved+b.Reserved, l.Confirmed+b.Confirmed
		l.OnLoan += b.LentOut - b.LentIn
		l.Seq += b.Seq
		at = max(at, h.at)
	}
	l.At = msTime(at)
	return l
}

// earliest is the first deadline of all buckets, 0 = none.
func earliest(heads []*head) int64 {
	var due int64
	for _, h := range heads {
		if h.due != 0 && h.level.Reserved > 0 && (due == 0 || h.due < due) {
			due = h.due
		}
	}
	return due
}

// Level reads the sale's counters now, each bucket in one script.
func (s *Store) Level(ctx context.Context, sale string) (Level, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return Level{}, err
	}
	if e.gone() {
		return s.archivedLevel(ctx, e)
	}
	heads, err := s.readHeads(ctx, e.live)
	if err != nil {
		return Level{}, err
	}
	return addUpLevels(sale, heads), nil
}
