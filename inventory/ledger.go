package inventory

import (
	"context"
	"fmt"
	"strconv"
)

const scanCount = 512 // fields asked for at a time, so that no call blocks Redis

// Ledger calls fn for each reservation, tombstones too, in no order. It walks
// in slices while the sale goes on: what changes meanwhile may be seen in
// either state, and a record may come more than once. An error of fn ends it.
func (s *Store) Ledger(ctx context.Context, sale string, fn func(Reservation) error) error {
	e, err := s.entry(ctx, sale)
	if err != nil {
		return err
	}
	if e.gone() && s.archive != nil {
		return s.archive.Each(ctx, sale, fn)
	}
	for _, c := range e.cells {
		if err := s.ledgerOf(ctx, e, c, fn); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) ledgerOf(ctx context.Context, e *entry, c *cell, fn func(Reservation) error) error {
	text, err := s.redis.HGet(ctx, c.headKey(), "epoch").Result()
	if err != nil {
		return fmt.Errorf("walking the ledger: %w", mapRead(err))
	}
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("bucket %d of %s: epoch: %w", c.index, c.sale, err)
	}
	return s.scan(ctx, c.ledgerKey(), func(id, text string) error {
		r, err := parseRecord(e, c, epoch, id, text)
		if err != nil {
			return err
		}
		return fn(r)
	})
}

func (s *Store) scan(ctx context.Context, key string, fn func(field, value string) error) error {
	for cursor := uint64(0); ; {
		kv, next, err := s.redis.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return fmt.Errorf("walking the ledger: %w", mapRead(err))
		}
		for i := 0; i+1 < len(kv); i += 2 {
			if kv[i] == "" {
				continue // keeps the key from being empty
			}
			if err := fn(kv[i], kv[i+1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
