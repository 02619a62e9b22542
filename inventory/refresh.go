package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Refresh reads all records and levels now and publishes them as one snapshot.
// Callers that come while one runs share the next. On an error the last views
// stay. It also mends what it finds: desired states that have not arrived,
// changes that are missing, generations that a dead preheat left shut, loans
// that stay on the road, due holds that nobody frees.
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
	if e, ok := s.pastSales.Peek(sale); ok {
		return e, nil
	}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	if e, ok := s.views.Load().bySale[sale]; ok {
		return e, nil
	}
	return s.past(ctx, sale)
}

// chore is something to mend, done after the views are published.
type chore func(context.Context) error

func (s *Store) refresh(ctx context.Context) ([]chore, error) {
	texts, replicas, err := s.readSales(ctx)
	if err != nil {
		return nil, err
	}
	old := s.views.Load()
	entries := make([]*entry, 0, len(texts))
	for id, text := range texts {
		r, err := parseMeta(id, text)
		if err != nil {
			s.log.Error("reading sales", "error", err)
			continue
		}
		entries = append(entries, s.newEntry(r, old.bySale[id]))
	}
	entries = append(entries, s.lost(ctx, old, texts)...)
	sort.Slice(entries, func(i, j int) bool { return entries[i].view.Sale.ID < entries[j].view.Sale.ID })
	chores, err := s.readLevels(ctx, old, entries, replicas)
	if err == nil {
		chores = slices.Concat(chores, s.retireChores(entries, texts), s.forgetPast(entries), s.tidyChore())
	}
	return chores, err
}

// readSales reads all records, says that this replica is alive, and counts
// those that are.
func (s *Store) readSales(ctx context.Context) (texts map[string]string, replicas int64, err error) {
	pipe := s.redis.Pipeline()
	records := pipe.HGetAll(ctx, salesKey())
	// EVAL, because a NOSCRIPT inside a pipeline does not fall back.
	alive := pipe.Eval(ctx, s.scripts.beat.src, []string{replicasKey()}, s.replica, beatFor.Milliseconds())
	_, _ = pipe.Exec(ctx)
	if texts, err = records.Result(); err != nil {
		return nil, 0, fmt.Errorf("reading sales: %w", mapRead(err))
	}
	if replicas, err = alive.Int64(); err != nil {
		return nil, 0, fmt.Errorf("counting replicas: %w", mapRead(err))
	}
	return texts, replicas, nil
}

// Replicas are the names of those alive, this one included if it has refreshed.
func (s *Store) Replicas(ctx context.Context) ([]string, error) {
	beats, err := s.redis.HGetAll(ctx, replicasKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading who is alive: %w", mapRead(err))
	}
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("reading who is alive: %w", mapRead(err))
	}
	var alive []string
	for name, text := range beats {
		if at, err := strconv.ParseInt(text, 10, 64); err == nil && now.Sub(msTime(at)) <= beatFor {
			alive = append(alive, name)
		}
	}
	sort.Strings(alive)
	return alive, nil
}

// beatFor is how long a replica counts as alive after it was last heard of.
const beatFor = 2 * time.Second

func (s *Store) newEntry(r record, old *entry) *entry {
	e := &entry{
		view: View{Sale: r.sale(), Desired: r.Desired, Generation: r.Generation, Reason: r.Reason, Gone: r.Gone},
		tag:  saleTag(r.Plan.ID), desiredVersion: r.DesiredVersion, deleted: r.Deleted,
	}
	e.view.Preheat.Lead = max(time.Duration(r.Start-r.Preheated)*time.Millisecond, 0)
	if old != nil && old.view.Generation == r.Generation {
		e.live, e.view.Level, e.view.HoldsOut, e.view.Until = old.live, old.view.Level, old.view.HoldsOut, old.view.Until
		return e
	}
	e.live = newLive(r)
	s.recall(e, old)
	return e
}

// lost keeps sales whose record is gone although this replica saw them change:
// they are never open again, and never preheated anew by this process. One that
// is in the archive for good is over and not lost.
func (s *Store) lost(ctx context.Context, old *snapshot, texts map[string]string) []*entry {
	var kept []*entry
	for id, e := range old.bySale {
		if _, ok := texts[id]; ok || e.seen() == 0 || e.gone() {
			continue
		}
		gone := *e
		if gone.view.Reason != gapReason {
			sealed, err := s.sealed(ctx, id)
			if err != nil {
				s.log.Warn("asking the archive for a sale that Redis does not have", "sale", id, "error", err)
				gone.view.Desired = DesiredPaused
				kept = append(kept, &gone)
			}
			if err != nil || sealed {
				continue
			}
			s.log.Error("STOCK LOST: Redis has forgotten the whole sale", "sale", id, "seen", e.seen())
			s.seen.lost.Add(1)
		}
		gone.view.Desired, gone.view.Reason = DesiredPaused, gapReason
		kept = append(kept, &gone)
	}
	return kept
}

// readLevels reads all buckets in one round trip and publishes the snapshot.
func (s *Store) readLevels(ctx context.Context, old *snapshot, entries []*entry, replicas int64) ([]chore, error) {
	var cells []*cell
	var before []int64
	for _, e := range entries {
		if e.gone() {
			continue
		}
		for _, c := range e.cells {
			cells, before = append(cells, c), append(before, c.watch.seen())
		}
	}
	asked := s.nano()
	cmds := s.askHeads(ctx, cells)
	if errors.Is(ctx.Err(), context.Canceled) {
		// Who asked has gone: no reading failed, so none is told as failed.
		return nil, fmt.Errorf("reading the buckets: %w", mapRead(ctx.Err()))
	}
	snap := &snapshot{
		bySale: make(map[string]*entry, len(entries)), byItem: make(map[string][]*entry), list: entries,
		redisAt: old.redisAt, localAt: old.localAt, at: asked, replicas: replicas, replaced: make(chan struct{}),
	}
	var chores []chore
	var failed error
	readable, next := 0, 0
	for _, e := range entries {
		n := len(e.cells)
		if e.gone() {
			n = 0
		}
		more, err := s.readEntry(e, snap, cmds[next:next+n], before[next:next+n], asked)
		next += n
		chores = append(chores, more...)
		if err != nil {
			failed = err
		} else {
			readable++
		}
		snap.bySale[e.view.Sale.ID] = e
		snap.byItem[e.view.Sale.Item] = append(snap.byItem[e.view.Sale.Item], e)
	}
	if snap.localAt.Equal(old.localAt) {
		s.readTime(ctx, snap)
	}
	s.views.Store(snap)
	close(old.replaced)
	if readable > 0 {
		failed = nil // one bad sale must not stop the others; it was logged
	}
	return append(chores, s.keepMarks(entries)...), failed
}

// readTime asks for the time where no bucket told it: no sale has any.
func (s *Store) readTime(ctx context.Context, snap *snapshot) {
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		s.log.Warn("reading the time of Redis", "error", err)
		return
	}
	snap.redisAt, snap.localAt = now, time.Now()
}

// readEntry puts the readings of a sale's buckets into its new entry and says
// what is to be mended. A bucket that cannot be read keeps its last reading.
func (s *Store) readEntry(e *entry, snap *snapshot, cmds []*redis.Cmd, before []int64, asked int64) ([]chore, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	var chores []chore
	var failed error
	last, heads := make([]*head, len(cmds)), make([]*head, len(cmds))
	for i, c := range e.cells {
		last[i] = c.level.Load()
		h, err := parseHead(c, cmds[i])
		switch {
		case err != nil:
			failed = err
			s.alarm(e, err.Error())
		case h == nil:
			s.alarm(e, noStock)
		default:
			heads[i] = h
			c.level.Store(h)
			chores = append(chores, s.inspect(e, c, h, before[i])...)
			snap.redisAt, snap.localAt = msTime(h.at), time.Now()
		}
	}
	return append(chores, s.summarize(e, last, heads, snap.replicas, asked)...), failed
}

// summarize makes the sale's level of its buckets' readings.
func (s *Store) summarize(e *entry, last, heads []*head, replicas, asked int64) []chore {
	complete := true
	known := make([]*head, 0, len(heads))
	for i, c := range e.cells {
		complete = complete && heads[i] != nil
		if h := c.level.Load(); h != nil {
			known = append(known, h)
		}
	}
	e.view.Preheat.Readable = float64(len(heads)-missing(heads)) / float64(max(len(heads), 1))
	e.view.Preheat.BackToSource = float64(e.missed.Load()) / float64(max(e.orders.Load(), 1))
	if len(known) < len(heads) {
		return nil
	}
	l := addUpLevels(e.view.Sale.ID, known)
	e.view.Level = l
	e.view.HoldsOut = l.Free == 0 && (l.Reserved > 0 || l.OnLoan > 0)
	e.view.Until = time.Time{}
	if due := earliest(known); due != 0 {
		e.view.Until = msTime(due)
	}
	if !complete {
		return nil
	}
	e.judge(l, equalVersions(last, heads), asked)
	if s.share != nil {
		e.share.renew(l.Free, s.share.quota(l.Free, replicas), asked)
	}
	return s.stockChores(e, heads, l)
}

func missing(heads []*head) (n int) {
	for _, h := range heads {
		if h == nil {
			n++
		}
	}
	return n
}

// inspect says what is to be mended in one bucket.
func (s *Store) inspect(e *entry, c *cell, h *head, before int64) []chore {
	var chores []chore
	sale := e.view.Sale.ID
	found, gap, newRun := c.watch.inspect(h.level.Run, h.armed, h.level.Seq, before)
	if gap { // before the bucket is armed, or it would sell what is told again below
		chores = append(chores, func(ctx context.Context) error { return s.pauseForGap(ctx, e, c, before, found) })
	}
	if newRun || gap {
		// The sums of the loan books may agree by chance: they are compared line by line.
		chores = append(chores, func(ctx context.Context) error { return errors.Join(s.repair(ctx, sale), s.replay(ctx, e, c)) })
	} else if c.untold.any() {
		chores = append(chores, func(ctx context.Context) error { return s.tell(ctx, e, c) })
	}
	if !gap && c.watch.owes() {
		chores = append(chores, func(ctx context.Context) error { return s.pauseOwed(ctx, e, c) })
	}
	switch {
	case h.desiredVersion < e.desiredVersion:
		chores = append(chores, func(ctx context.Context) error { return s.push(ctx, c.bucket, e.view.Desired, e.desiredVersion) })
	case h.desired == DesiredPaused && e.view.Desired == DesiredOn && h.desiredVersion == e.desiredVersion:
		// Paused by a re-arming that could not record it.
		chores = append(chores, func(ctx context.Context) error { return s.setDesired(ctx, sale, DesiredPaused, gapReason) })
	}
	if h.void != 0 {
		chores = append(chores, func(ctx context.Context) error { return s.heal(ctx, c, h.void) })
	}
	return chores
}
