package inventory

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Refresh reads all records and levels now and publishes them as one snapshot.
// Callers that come while one runs share the next. On an error the last views
// stay. It also mends what it finds: desired states that have not arrived,
// changes that are missing, generations that a dead preheat left shut.
func (s *Store) Refresh(ctx context.Context) error {
	want := s.started.Load() + 1 // a refresh that begins after this call
	select {
	case s.refreshing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("refreshing: %w: %w", ErrUnavailable, ctx.Err())
	}
	if s.finished >= want {
		<-s.refreshing
		return nil
	}
	number := s.started.Add(1)
	chores, err := s.refresh(ctx)
	if err == nil {
		s.finished = number
	}
	<-s.refreshing
	for _, chore := range chores {
		if e := chore(ctx); e != nil {
			s.log.Warn("mending a sale", "error", e)
		}
	}
	return err
}

// entry is the sale's place in the views; an unknown sale is looked for once.
func (s *Store) entry(ctx context.Context, sale string) (*entry, error) {
	if e, ok := s.views.Load().bySale[sale]; ok {
		return e, nil
	}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	if e, ok := s.views.Load().bySale[sale]; ok {
		return e, nil
	}
	return nil, fmt.Errorf("sale %s: %w", sale, ErrUnknownSale)
}

// chore is something to mend, done after the views are published.
type chore func(context.Context) error

func (s *Store) refresh(ctx context.Context) ([]chore, error) {
	texts, err := s.redis.HGetAll(ctx, salesKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading sales: %w", mapRead(err))
	}
	old := s.views.Load()
	entries := make([]*entry, 0, len(texts))
	for id, text := range texts {
		r, err := parseMeta(id, text)
		if err != nil {
			s.log.Error("reading sales", "error", err)
			continue
		}
		entries = append(entries, newEntry(r, old.bySale[id]))
	}
	entries = append(entries, s.lost(old, texts)...)
	sort.Slice(entries, func(i, j int) bool { return entries[i].view.Sale.ID < entries[j].view.Sale.ID })
	return s.readLevels(ctx, old, entries)
}

func newEntry(r record, old *entry) *entry {
	e := &entry{
		view: View{Sale: r.sale(), Desired: r.Desired, Generation: r.Generation, Reason: r.Reason},
		tag:  saleTag(r.Plan.ID), keys: r.bucket().keys(), head: r.bucket().headKey(), desiredVersion: r.DesiredVersion,
	}
	if old != nil && old.view.Generation == r.Generation {
		e.watch, e.view.Level, e.view.HoldsOut = old.watch, old.view.Level, old.view.HoldsOut
	} else {
		e.watch = &watch{}
	}
	return e
}

// lost keeps sales whose record is gone although this replica saw them change:
// they are never open again, and never preheated anew by this process.
func (s *Store) lost(old *snapshot, texts map[string]string) []*entry {
	var kept []*entry
	for id, e := range old.bySale {
		if _, ok := texts[id]; ok || e.watch.seen() == 0 {
			continue
		}
		gone := *e
		if gone.view.Reason != gapReason {
			s.log.Error("STOCK LOST: Redis has forgotten the whole sale", "sale", id, "seen", e.watch.seen())
		}
		gone.view.Desired, gone.view.Reason = DesiredPaused, gapReason
		kept = append(kept, &gone)
	}
	return kept
}

// readLevels reads all buckets in one round trip and publishes the snapshot.
func (s *Store) readLevels(ctx context.Context, old *snapshot, entries []*entry) ([]chore, error) {
	before := make([]int64, len(entries))
	for i, e := range entries {
		before[i] = e.watch.seen()
	}
	asked := time.Now()
	cmds := s.askLevels(ctx, entries)
	snap := &snapshot{
		bySale: make(map[string]*entry, len(entries)), byItem: make(map[string][]*entry),
		list: entries, redisAt: old.redisAt, localAt: old.localAt,
	}
	var chores []chore
	var failed error
	readable := len(entries)
	for i, e := range entries {
		h, err := parseHead(e.view.Sale.ID, cmds[i])
		switch {
		case err != nil:
			readable, failed = readable-1, err
			s.alarm(e, err.Error())
		case h == nil:
			s.alarm(e, noStock)
		default:
			chores = append(chores, s.apply(e, h, before[i], asked)...)
			snap.redisAt, snap.localAt = h.level.At, time.Now()
		}
		snap.bySale[e.view.Sale.ID] = e
		snap.byItem[e.view.Sale.Item] = append(snap.byItem[e.view.Sale.Item], e)
	}
	s.views.Store(snap)
	if readable > 0 {
		failed = nil // one bad bucket must not stop the others; it was logged
	}
	return chores, failed
}

// askLevels sends one level.lua per sale. A failure shows in each command.
func (s *Store) askLevels(ctx context.Context, entries []*entry) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(entries))
	if len(entries) == 0 {
		return cmds
	}
	pipe := s.redis.Pipeline()
	for i, e := range entries {
		// EVAL, because a NOSCRIPT inside a pipeline does not fall back.
		cmds[i] = pipe.Eval(ctx, s.scripts.level.src, []string{e.head})
	}
	_, _ = pipe.Exec(ctx)
	return cmds
}

// apply puts a reading into a new entry and says what is to be mended.
func (s *Store) apply(e *entry, h *head, before int64, asked time.Time) []chore {
	var chores []chore
	e.view.Level = h.level
	e.view.HoldsOut = h.level.Free == 0 && h.level.Reserved > 0
	e.watch.level(h.level, asked)
	sale, b := e.view.Sale.ID, bucket{sale: e.view.Sale.ID, generation: e.view.Generation}
	if e.watch.inspect(h.run, h.armed, h.level.Seq, before) {
		chores = append(chores, func(ctx context.Context) error { return s.pauseForGap(ctx, e, before, h.level.Seq) })
	}
	switch {
	case h.desiredVersion < e.desiredVersion:
		chores = append(chores, func(ctx context.Context) error {
			return s.push(ctx, b, e.view.Desired, e.desiredVersion)
		})
	case h.desired == DesiredPaused && e.view.Desired == DesiredOn && h.desiredVersion == e.desiredVersion:
		// Paused by a re-arming that could not record it.
		chores = append(chores, func(ctx context.Context) error {
			return s.setDesired(ctx, sale, DesiredPaused, gapReason)
		})
	}
	if h.void != 0 {
		chores = append(chores, func(ctx context.Context) error { return s.heal(ctx, b, h.void) })
	}
	return chores
}

// head is a reading of a bucket's counters, from level.lua.
type head struct {
	run            string
	level          Level
	void           int64
	desired        Desired
	desiredVersion int64
	armed          []int64
}

// parseHead is nil without an error when the bucket is not there.
func parseHead(sale string, cmd *redis.Cmd) (*head, error) {
	v, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("reading the level of %s: %w", sale, mapRead(err))
	}
	if len(v) == 0 {
		return nil, nil
	}
	if len(v) != 14 {
		return nil, fmt.Errorf("reading the level of %s: %w: %d fields", sale, ErrUnavailable, len(v))
	}
	at, _ := v[0].(int64)
	num := func(i int) int64 {
		t, _ := v[i].(string)
		n, _ := strconv.ParseInt(t, 10, 64)
		return n
	}
	run, _ := v[1].(string)
	desired, _ := v[5].(string)
	armed, _ := v[13].(string)
	h := &head{run: run, void: num(4), desired: Desired(desired), desiredVersion: num(6)}
	for _, f := range strings.Fields(armed) {
		n, _ := strconv.ParseInt(f, 10, 64)
		h.armed = append(h.armed, n)
	}
	// With one bucket nothing is on loan; with more, what is lent and not yet
	// accepted belongs to no bucket.
	h.level = Level{
		Sale: sale, Total: num(7), OnLoan: num(9) - num(8), Free: num(10), Reserved: num(11), Confirmed: num(12),
		Seq: num(2), At: msTime(at),
	}
	return h, nil
}

// Level reads the sale's counters now, in one script.
func (s *Store) Level(ctx context.Context, sale string) (Level, error) {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return Level{}, err
	}
	h, err := parseHead(sale, s.redis.Eval(ctx, s.scripts.level.src, []string{e.head}))
	if err != nil {
		return Level{}, err
	}
	if h == nil {
		return Level{}, errNoBucket(sale)
	}
	return h.level, nil
}
