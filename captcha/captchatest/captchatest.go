// Package captchatest reads answers out of Redis, for whole-program tests that
// stand in for the human who reads the picture.
package captchatest

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"weir/captcha"
)

// Answer returns the digits of an open challenge. It burns nothing.
// captcha.ErrExpired when the challenge is gone, captcha.ErrUnknown for what is
// no id at all; whose it is, is not checked.
func Answer(ctx context.Context, rdb redis.UniversalClient, id string) (string, error) {
	key, err := captcha.RecordKey(id)
	if err != nil {
		return "", err
	}
	answer, err := rdb.HGet(ctx, key, "answer").Result()
	if err == redis.Nil {
		return "", captcha.ErrExpired
	}
	if err != nil {
		return "", fmt.Errorf("reading answer: %w", err)
	}
	return answer, nil
}
