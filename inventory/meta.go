package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// record is what the meta slot holds of a sale. Scripts compare and replace its
// text as a whole, so it has one writer at a time without a lock.
type record struct {
	Plan       Sale  `json:"plan"`      // as it was given
	Start      int64 `json:"start"`     // effective start, ms
	Preheated  int64 `json:"preheated"` // when its buckets were written, ms
	Generation int64 `json:"generation"`
	// Tags are the hash tags of its buckets, frozen with the generation.
	Tags []string `json:"tags"`
	// Previous generation, whose keys the preheat deletes after its switch.
	Previous       int64    `json:"previous"`
	PreviousTags   []string `json:"previous_tags,omitempty"`
	Desired        Desired  `json:"desired"`
	DesiredVersion int64    `json:"desired_version"`
	Reason         string   `json:"reason,omitempty"` // why weir itself paused it
	Gone           bool     `json:"gone,omitempty"`   // the archive has it; its keys are deleted from now on
	// Deleted is when no key was left, ms.
	Deleted int64 `json:"deleted,omitempty"`
}

func parseMeta(sale, text string) (record, error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("record of sale %s: %w", sale, err)
	}
	return r, nil
}

func (r record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return string(b)
}

func (r record) buckets() []bucket { return bucketsOf(r.Plan.ID, r.Generation, r.Tags) }

func (r record) previousBuckets() []bucket {
	return bucketsOf(r.Plan.ID, r.Previous, r.PreviousTags)
}

func bucketsOf(sale string, generation int64, tags []string) []bucket {
	all := make([]bucket, len(tags))
	for i, tag := range tags {
		all[i] = bucket{sale: sale, tag: tag, generation: generation}
	}
	return all
}

// sale is the plan with its effective start.
func (r record) sale() Sale {
	s := r.Plan
	s.StartAt, s.EndAt = msTime(r.Start), s.EndAt.UTC()
	return s
}

// samePlan compares in whole milliseconds, as plans are stored.
func samePlan(a, b Sale) bool {
	same := a.EndAt.UnixMilli() == b.EndAt.UnixMilli() && a.StartAt.IsZero() == b.StartAt.IsZero() &&
		(a.StartAt.IsZero() || a.StartAt.UnixMilli() == b.StartAt.UnixMilli())
	a.StartAt, a.EndAt = b.StartAt, b.EndAt
	return same && a == b
}

// readRecord reads one sale's record; the text is "" when there is none.
func (s *Store) readRecord(ctx context.Context, sale string) (record, string, error) {
	text, err := s.redis.HGet(ctx, salesKey(), sale).Result()
	if errors.Is(err, redis.Nil) {
		return record{}, "", nil
	}
	if err != nil {
		return record{}, "", fmt.Errorf("reading sale %s: %w", sale, mapRead(err))
	}
	r, err := parseMeta(sale, text)
	return r, text, err
}

// amend changes a sale's record, if change says so, over whatever others do to
// it at the same time. No record is nothing to change.
func (s *Store) amend(ctx context.Context, sale string, change func(*record) (bool, error)) error {
	for range maxSwaps {
		r, text, err := s.readRecord(ctx, sale)
		if err != nil || text == "" {
			return err
		}
		if changed, err := change(&r); err != nil || !changed {
			return err
		}
		code, err := s.runInt(ctx, &s.scripts.swap, []string{salesKey()}, sale, text, r.text())
		if err != nil || code == 0 {
			return err
		}
	}
	return fmt.Errorf("sale %s: its record keeps changing: %w", sale, ErrUnavailable)
}

// mapRead: a failed read changed nothing.
func mapRead(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// saleOfTag finds the sale of an order id's prefix.
func (s *Store) saleOfTag(ctx context.Context, tag string) (string, error) {
	for _, e := range s.views.Load().list {
		if e.tag == tag {
			return e.view.Sale.ID, nil
		}
	}
	sale, err := s.redis.HGet(ctx, tagsKey(), tag).Result()
	if errors.Is(err, redis.Nil) {
		return "", ErrUnknownReservation
	}
	if err != nil {
		return "", fmt.Errorf("finding the sale of a reservation: %w", mapRead(err))
	}
	return sale, nil
}
