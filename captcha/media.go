package captcha

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/dchest/captcha"
	"github.com/redis/go-redis/v9"
)

// soundLang is the one language of sounds: a second rendering of the same
// answer would only help a machine.
const soundLang = "en"

// Picture returns the PNG of an open challenge, the same bytes on every replica.
// ErrUnknown, ErrExpired, ErrUnavailable.
func (i *Issuer) Picture(ctx context.Context, id, user string) ([]byte, error) {
	tag, err := i.open(id, user)
	if err != nil {
		return nil, err
	}
	b, err := i.cfg.Redis.HGet(ctx, recordKey(tag, id), "picture").Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrExpired
	}
	if err != nil {
		return nil, unavailable("reading picture", err)
	}
	return b, nil
}

// Sound returns the WAV of an open challenge, about 130 KB. It is drawn (4 ms)
// when it is first fetched and kept, and the challenge then lives on for
// SoundTTL. ErrUnknown, ErrExpired, ErrUnavailable.
func (i *Issuer) Sound(ctx context.Context, id, user string) ([]byte, error) {
	tag, err := i.open(id, user)
	if err != nil {
		return nil, err
	}
	rec, err := i.cfg.Redis.HMGet(ctx, recordKey(tag, id), "answer", "sound").Result()
	if err != nil {
		return nil, unavailable("reading sound", err)
	}
	if s := str(rec, 1); s != "" {
		return []byte(s), nil
	}
	if len(rec) == 0 || rec[0] == nil {
		return nil, ErrExpired
	}
	digits, ok := values(str(rec, 0))
	if !ok {
		i.cfg.Log.Warn("captcha: a challenge in Redis has no digits for an answer")
		return nil, ErrExpired
	}
	var b bytes.Buffer
	if _, err := captcha.NewAudio(id, digits, soundLang).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("drawing sound: %w", err)
	}
	code, vals, err := i.run(ctx, "keeping sound", soundScript,
		[]string{recordKey(tag, id), liveKey(tag)}, b.Bytes(), i.cfg.SoundTTL.Milliseconds())
	if err != nil {
		return nil, err
	}
	if code != codeDone {
		return nil, ErrExpired
	}
	return []byte(str(vals, 0)), nil
}
