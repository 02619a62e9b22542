package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// writeTries is how often the writing of one bucket is tried, alone.
const writeTries = 3

// writeBuckets splits the stock and writes all buckets of the new generation.
// A bucket that fails is tried again by itself. It sets r.Start and returns the
// first bucket's Redis time.
func (s *Store) writeBuckets(ctx context.Context, r *record) (now int64, err error) {
	limit := r.Plan.BucketCap
	if limit == 0 {
		limit = max(r.Plan.Total, 1)
	}
	parts, err := Split(r.Plan.Total, len(r.Tags), limit)
	if err != nil {
		return 0, err
	}
	if err := s.runsTags(ctx, r); err != nil {
		return 0, err
	}
	if !r.Plan.StartAt.IsZero() {
		r.Start = r.Plan.StartAt.UnixMilli()
	}
	for i, b := range r.buckets() {
		at, err := s.writeBucket(ctx, r, b, parts[i])
		if err != nil {
			return 0, fmt.Errorf("bucket %d of %d: %w", i+1, len(parts), err)
		}
		if i == 0 {
			now = at
		}
	}
	return now, nil
}

// runsTags notes where this preheat is going to write, for whoever cleans up.
func (s *Store) runsTags(ctx context.Context, r *record) error {
	code, err := s.runInt(ctx, &s.scripts.leaseTags, []string{leaseKey()}, r.Generation, strings.Join(r.Tags, " "))
	if err == nil && code != 0 {
		err = fmt.Errorf("the preheat took too long: %w", ErrUnavailable)
	}
	return err
}

func (s *Store) writeBucket(ctx context.Context, r *record, b bucket, units int64) (now int64, err error) {
	for range writeTries {
		if now, err = s.writeOnce(ctx, r, b, units); err == nil || !(isUnknown(err) || errors.Is(err, ErrUnavailable)) {
			return now, err
		}
		s.log.Warn("writing a bucket again", "sale", r.Plan.ID, "tag", b.tag, "error", err)
	}
	return now, err
}

func (s *Store) writeOnce(ctx context.Context, r *record, b bucket, units int64) (now int64, err error) {
	p := r.Plan
	v, err := s.run(ctx, &s.scripts.write, b.keys(), s.fence(),
		r.Generation, p.Item, r.Start, p.EndAt.UnixMilli(), units, p.BuyerLimit, p.MaxQuantity, p.Hold.Milliseconds(),
		string(p.Expiry), string(r.Desired), r.DesiredVersion)
	if err != nil {
		return 0, err
	}
	f, ok := v.([]any)
	if !ok || len(f) != 3 {
		return 0, fmt.Errorf("bucket_write: %w: answered %v", ErrOutcomeUnknown, v)
	}
	code, _ := f[0].(int64)
	start, _ := f[1].(int64)
	now, _ = f[2].(int64)
	switch code {
	case 1:
		return 0, fmt.Errorf("%w: keys of generation %d exist", ErrInvalidPreheat, r.Generation)
	case 2:
		return 0, fmt.Errorf("%w: ends_at: is past", ErrInvalidSale)
	}
	r.Start = start // the first bucket settles a start of "now"
	return now, nil
}

func isUnknown(err error) bool { return errors.Is(err, ErrOutcomeUnknown) }

// overlap: at most one sale of an item is open at a time.
func overlap(records map[string]string, r record) error {
	for id, text := range records {
		other, err := parseMeta(id, text)
		if err != nil {
			return err
		}
		if id == r.Plan.ID || other.Plan.Item != r.Plan.Item || other.Desired == DesiredCancelled {
			continue
		}
		if r.Start < other.Plan.EndAt.UnixMilli() && other.Start < r.Plan.EndAt.UnixMilli() {
			return fmt.Errorf("%w: item: %s is on sale in %s at that time", ErrInvalidSale, r.Plan.Item, id)
		}
	}
	return nil
}

// verify reads every new bucket back and compares every number that sells.
func (s *Store) verify(ctx context.Context, r record) error {
	var sum int64
	for i, b := range r.buckets() {
		units, err := s.verifyBucket(ctx, r, b)
		if err != nil {
			return fmt.Errorf("bucket %d of %d: %w", i+1, len(r.Tags), err)
		}
		sum += units
	}
	if sum != r.Plan.Total {
		return fmt.Errorf("%w: the buckets hold %d units, planned are %d", ErrInvalidPreheat, sum, r.Plan.Total)
	}
	return nil
}

func (s *Store) verifyBucket(ctx context.Context, r record, b bucket) (int64, error) {
	got, err := s.redis.HGetAll(ctx, b.headKey()).Result()
	if err != nil {
		return 0, fmt.Errorf("reading the new stock back: %w", mapRead(err))
	}
	p := r.Plan
	epoch, _ := strconv.ParseInt(got["epoch"], 10, 64)
	planned, err := strconv.ParseInt(got["planned"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: the new stock reads planned=%q", ErrInvalidPreheat, got["planned"])
	}
	for field, want := range map[string]string{
		"gen": num(r.Generation), "void": "0", "item": p.Item, "start": num(r.Start - epoch), "end": num(p.EndAt.UnixMilli() - epoch),
		"free": num(planned), "reserved": "0", "confirmed": "0", "lent_in": "0", "lent_out": "0",
		"limit": num(p.BuyerLimit), "max": num(p.MaxQuantity), "hold": num(p.Hold.Milliseconds()),
		"expiry": string(p.Expiry), "desired": string(r.Desired), "desired_version": num(r.DesiredVersion), "seq": "0",
	} {
		if got[field] != want {
			return 0, fmt.Errorf("%w: the new stock reads %s=%q, want %q", ErrInvalidPreheat, field, got[field], want)
		}
	}
	return planned, nil
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// void shuts the old generation, if there is one and it has not started.
func (s *Store) void(ctx context.Context, old record, generation, now int64) error {
	for _, b := range old.buckets() {
		code, err := s.runInt(ctx, &s.scripts.void, []string{b.headKey()}, generation, "void")
		switch {
		case err != nil:
			return err
		case code == 1, code == 3 && now >= old.Start:
			return ErrSaleStarted
		case code == 2:
			return fmt.Errorf("a later preheat took over: %w", ErrUnavailable)
		}
	}
	return nil
}

// switchTo moves the sale's pointer to the new generation.
func (s *Store) switchTo(ctx context.Context, r record, oldText string) error {
	id := r.Plan.ID
	code, err := s.runInt(ctx, &s.scripts.pointer, []string{salesKey(), tagsKey(), leaseKey()},
		id, saleTag(id), r.Generation, oldText, r.text())
	switch {
	case err != nil:
		return err
	case code == 2:
		return fmt.Errorf("%w: id: its order tag is that of another sale; choose another id", ErrInvalidSale)
	case code != 0:
		return fmt.Errorf("another replica changed the sale meanwhile: %w", ErrUnavailable)
	}
	return nil
}
