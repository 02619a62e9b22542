package sampleshop

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// SharedSecret is the master secret of a weir that has the sample shop behind
// it and was given none: made once, at random, and kept in the Redis that the
// replicas share, so that a pass of one is good on the other. Whoever reads
// that Redis can forge passes; a real shop therefore needs a real secret.
func SharedSecret(ctx context.Context, rdb redis.UniversalClient) ([]byte, error) {
	var fresh [32]byte
	rand.Read(fresh[:])
	text := base64.StdEncoding.EncodeToString(fresh[:])
	if err := rdb.SetNX(ctx, masterKey(), text, 0).Err(); err != nil {
		return nil, fmt.Errorf("making the sample shop's secret: %w", err)
	}
	kept, err := rdb.Get(ctx, masterKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the sample shop's secret: %w", err)
	}
	return []byte(kept), nil
}
