package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// preheatLease is how long a preheat may take before another replica
	// thinks that it died and cleans up.
	preheatLease = 3 * time.Second
	// undoTime bounds what is done after a failure, apart from the caller's own deadline.
	undoTime = 2 * time.Second
	leaseAsk = 50 * time.Millisecond // how often a busy lease is asked for again
)

// Preheat writes the sale's stock under new keys, reads it back, shuts the old
// generation, moves one pointer and deletes the old keys. Whatever fails before
// the pointer moved is undone and leaves the old untouched. It is idempotent by
// id and version. One preheat runs at a time over all sales and replicas.
//
// Errors: ErrInvalidSale, ErrInvalidPreheat (the bucket cap), ErrVersionReused,
// ErrSaleStarted, ErrUnavailable, ErrOutcomeUnknown (repeat it).
//
// A refused preheat counts in Stats and leaves one line in the log.
func (s *Store) Preheat(ctx context.Context, sale Sale) (View, error) {
	v, err := s.preheatOnce(ctx, sale)
	if refused(err) {
		s.seen.refused.Add(1)
		s.log.Error("PREHEAT REFUSED", "sale", sale.ID, "version", sale.Version, "error", err)
	}
	return v, err
}

// refused: the plan must not be written, in contrast to could not.
func refused(err error) bool {
	return errors.Is(err, ErrInvalidSale) || errors.Is(err, ErrInvalidPreheat) || errors.Is(err, ErrSaleStarted) || errors.Is(err, ErrVersionReused)
}

func (s *Store) preheatOnce(ctx context.Context, sale Sale) (View, error) {
	if err := sale.Validate(); err != nil {
		return View{}, err
	}
	r, text, err := s.readRecord(ctx, sale.ID)
	if err != nil {
		return View{}, err
	}
	done, err := s.decide(sale, r, text)
	if err == nil && text == "" {
		if past, e := s.past(ctx, sale.ID); e == nil && past.view.Sale.Version == sale.Version {
			return past.look(s.nano()), nil // long over
		}
		err = s.notArchived(ctx, sale.ID)
	}
	if err == nil && !done {
		err = s.preheatFrozen(ctx, sale, r)
	}
	if err != nil {
		return View{}, fmt.Errorf("preheating %s: %w", sale.ID, err)
	}
	return s.freshView(ctx, sale.ID)
}

// decide says whether the sale stands already, and refuses what may not be
// written over it. Whether the old one has started is judged by its bucket.
func (s *Store) decide(sale Sale, r record, text string) (done bool, err error) {
	if text == "" {
		if e, ok := s.views.Load().bySale[sale.ID]; (ok && e.seen() > 0) || s.marks.sold(sale.ID) {
			return false, errHasSold()
		}
		return false, nil
	}
	switch {
	case sale.Version == r.Plan.Version && samePlan(sale, r.Plan):
		return true, nil
	case sale.Version == r.Plan.Version:
		return false, fmt.Errorf("version %d: %w", sale.Version, ErrVersionReused)
	case sale.Version < r.Plan.Version:
		return false, fmt.Errorf("version %d is older than %d: %w", sale.Version, r.Plan.Version, ErrVersionReused)
	}
	return false, nil
}

func (s *Store) preheat(ctx context.Context, sale Sale, quota *freeze) error {
	generation, err := s.lease(ctx, sale.ID)
	if err != nil {
		return err
	}
	err = s.writeAndSwitch(ctx, sale, generation, quota)
	// From here on the outcome is read, not guessed: with the lease revoked, no
	// switch that is still on its way can land.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	switched, e := s.finish(after, sale.ID, generation)
	if e != nil {
		s.log.Error("cleaning up after a preheat; it is tried again later", "sale", sale.ID, "error", e)
		s.tidyAt.Store(0)
	}
	if switched || errors.Is(err, errStands) {
		return nil
	}
	return err
}

// lease takes the preheat lease, cleans up after a dead owner, waits for a living one.
func (s *Store) lease(ctx context.Context, sale string) (int64, error) {
	tick := time.NewTicker(leaseAsk)
	defer tick.Stop()
	for {
		code, generation, holder, err := s.begin(ctx, sale)
		if err != nil {
			return 0, err
		}
		switch code {
		case beginTaken:
			return generation, nil
		case beginTag:
			return 0, fmt.Errorf("%w: id: its order tag is that of sale %s; choose another id", ErrInvalidSale, holder)
		case beginDead:
			if _, err := s.finish(ctx, holder, generation); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("another preheat runs: %w: %w", ErrUnavailable, ctx.Err())
		case <-tick.C:
		}
	}
}

// What meta_begin.lua answers.
const (
	beginTaken = 0
	beginBusy  = 1
	beginTag   = 2
	beginDead  = 3
	beginFree  = 4
)

func (s *Store) begin(ctx context.Context, sale string) (code, generation int64, holder string, err error) {
	tag := ""
	if sale != "" {
		tag = saleTag(sale)
	}
	v, err := s.run(ctx, &s.scripts.begin, []string{tagsKey(), leaseKey()}, sale, tag, preheatLease.Milliseconds())
	if err != nil {
		return 0, 0, "", err
	}
	f, ok := v.([]any)
	if !ok || len(f) != 3 {
		return 0, 0, "", fmt.Errorf("meta_begin: %w: answered %v", ErrOutcomeUnknown, v)
	}
	code, _ = f[0].(int64)
	generation, _ = f[1].(int64)
	holder, _ = f[2].(string)
	return code, generation, holder, nil
}

// errStands: another replica preheated the same version meanwhile.
var errStands = errors.New("stands already")

// writeAndSwitch does every step up to the switch, under the lease.
func (s *Store) writeAndSwitch(ctx context.Context, sale Sale, generation int64, quota *freeze) error {
	records, err := s.redis.HGetAll(ctx, salesKey()).Result()
	if err != nil {
		return fmt.Errorf("reading sales: %w", mapRead(err))
	}
	text := records[sale.ID]
	old := record{}
	if text != "" {
		if old, err = parseMeta(sale.ID, text); err != nil {
			return err
		}
	}
	if done, err := s.decide(sale, old, text); done || err != nil {
		return errors.Join(err, standsIf(done))
	}
	if old.Gone {
		return errInArchive()
	}
	if err := quota.hold(ctx); err != nil {
		return err
	}
	r := record{
		Plan: sale, Generation: generation, Previous: old.Generation, PreviousTags: old.Tags,
		Desired: DesiredOn, DesiredVersion: 1,
	}
	if r.Tags, err = s.tagsFor(ctx, sale); err != nil {
		return err
	}
	if old.Desired == DesiredPaused { // a new plan does not resume a paused sale
		r.Desired, r.Reason = DesiredPaused, old.Reason
	}
	now, err := s.writeBuckets(ctx, &r)
	if err != nil {
		return err
	}
	r.Preheated = now
	if err := overlap(records, r); err != nil {
		return err
	}
	if err := s.verify(ctx, r); err != nil {
		return err
	}
	if err := s.void(ctx, old, generation, now); err != nil {
		return err
	}
	return s.switchTo(ctx, r, text)
}

func standsIf(done bool) error {
	if done {
		return errStands
	}
	return nil
}

// finish ends a preheat, one's own or a dead one's: revoke the lease, read
// which generation is in force, remove the other, give the lease back. If a
// step fails the lease stays, and the next preheat does it again.
func (s *Store) finish(ctx context.Context, sale string, generation int64) (switched bool, err error) {
	v, err := s.run(ctx, &s.scripts.revoke, []string{salesKey(), leaseKey()}, sale, generation)
	if err != nil {
		return false, err
	}
	r := record{}
	if text, _ := v.(string); text != "" {
		if r, err = parseMeta(sale, text); err != nil {
			return false, err
		}
	}
	var drop []bucket
	if switched = r.Generation == generation; switched {
		drop = r.previousBuckets()
	} else {
		if drop, err = s.written(ctx, sale, generation); err != nil {
			return switched, err
		}
		for _, b := range r.buckets() {
			if _, err := s.runInt(ctx, &s.scripts.void, []string{b.headKey()}, generation, "undo"); err != nil {
				return switched, err
			}
		}
	}
	for _, b := range drop {
		if err := s.redis.Unlink(ctx, b.keys()...).Err(); err != nil {
			return switched, mapRead(err)
		}
	}
	_, err = s.runInt(ctx, &s.scripts.end, []string{leaseKey()}, generation)
	return switched, err
}

// written are the buckets that a preheat which did not switch may have
// written: it noted their tags before it wrote.
func (s *Store) written(ctx context.Context, sale string, generation int64) ([]bucket, error) {
	tags, err := s.redis.HGet(ctx, leaseKey(), "tags").Result()
	if errors.Is(err, redis.Nil) || tags == "" {
		return nil, nil
	}
	if err != nil {
		return nil, mapRead(err)
	}
	return bucketsOf(sale, generation, strings.Fields(tags)), nil
}

const (
	// tidyEvery is how often a replica looks for a preheat that died.
	tidyEvery = 30 * time.Second
	tidySoon  = time.Second // while one may yet end, or could not be cleaned up after
)

// tidyChore cleans up after a preheat that died or could not undo what it wrote,
// here or elsewhere, also when it had shut nothing yet.
func (s *Store) tidyChore() []chore {
	now := s.nano()
	if now < s.tidyAt.Load() {
		return nil
	}
	s.tidyAt.Store(now + int64(tidyEvery))
	return []chore{func(ctx context.Context) error {
		code, generation, sale, err := s.begin(ctx, "")
		if err == nil && code == beginDead {
			_, err = s.finish(ctx, sale, generation)
		}
		if err != nil || code == beginBusy {
			s.tidyAt.Store(now + int64(tidySoon))
		}
		return err
	}}
}

// heal opens a bucket in force that a dead preheat has shut.
func (s *Store) heal(ctx context.Context, c *cell, by int64) error {
	code, generation, sale, err := s.begin(ctx, "")
	if err != nil || code == beginBusy {
		return err
	}
	if code == beginDead {
		_, err = s.finish(ctx, sale, generation)
		return err
	}
	_, err = s.runInt(ctx, &s.scripts.void, []string{c.headKey()}, by, "undo")
	return err
}
