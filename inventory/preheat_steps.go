package inventory

import (
	"context"
	"fmt"
	"strconv"
)

// writeBucket writes the head of the new generation and sets r.Start. It
// returns the bucket's Redis time.
func (s *Store) writeBucket(ctx context.Context, r *record) (now int64, err error) {
	p, start := r.Plan, int64(0)
	if !p.StartAt.IsZero() {
		start = p.StartAt.UnixMilli()
	}
	v, err := s.run(ctx, &s.scripts.write, r.bucket().keys(), s.fence(),
		r.Generation, p.Item, start, p.EndAt.UnixMilli(), p.Total, p.BuyerLimit, p.MaxQuantity, p.Hold.Milliseconds(),
		string(p.Expiry), string(r.Desired), r.DesiredVersion)
	if err != nil {
		return 0, err
	}
	f, ok := v.([]any)
	if !ok || len(f) != 3 {
		return 0, fmt.Errorf("bucket_write: %w: answered %v", ErrOutcomeUnknown, v)
	}
	code, _ := f[0].(int64)
	r.Start, _ = f[1].(int64)
	now, _ = f[2].(int64)
	switch code {
	case 1:
		return 0, fmt.Errorf("keys of generation %d exist: %w", r.Generation, ErrUnavailable)
	case 2:
		return 0, fmt.Errorf("%w: ends_at: is past", ErrInvalidSale)
	}
	return now, nil
}

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

// verify reads the new head back and compares every number that sells.
func (s *Store) verify(ctx context.Context, r record) error {
	got, err := s.redis.HGetAll(ctx, r.bucket().headKey()).Result()
	if err != nil {
		return fmt.Errorf("reading the new stock back: %w", mapRead(err))
	}
	p := r.Plan
	for field, want := range map[string]string{
		"gen": num(r.Generation), "void": "0", "item": p.Item, "start": num(r.Start), "end": num(p.EndAt.UnixMilli()),
		"planned": num(p.Total), "free": num(p.Total), "reserved": "0", "confirmed": "0", "lent_in": "0", "lent_out": "0",
		"limit": num(p.BuyerLimit), "max": num(p.MaxQuantity), "hold": num(p.Hold.Milliseconds()),
		"expiry": string(p.Expiry), "desired": string(r.Desired), "desired_version": num(r.DesiredVersion), "seq": "0",
	} {
		if got[field] != want {
			return fmt.Errorf("%w: the new stock reads %s=%q, want %q", ErrInvalidPreheat, field, got[field], want)
		}
	}
	return nil
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// void shuts the old generation, if there is one and it has not started.
func (s *Store) void(ctx context.Context, old record, generation, now int64) error {
	if old.Generation == 0 {
		return nil
	}
	code, err := s.runInt(ctx, &s.scripts.void, []string{old.bucket().headKey()}, generation, "void")
	switch {
	case err != nil:
		return err
	case code == 1, code == 3 && now >= old.Start:
		return ErrSaleStarted
	case code == 2:
		return fmt.Errorf("a later preheat took over: %w", ErrUnavailable)
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
