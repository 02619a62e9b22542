package captcha

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/dchest/captcha"
)

// Issue makes a challenge for b and draws its picture. kind is KindImage or "",
// else ErrKind.
//
// A user has at most MaxLive open challenges: one more closes his oldest. Who is
// issued more than 20 × MaxLive within one TTL gets a *TooManyError. The write is
// one script; after an ErrUnavailable a challenge may lie in Redis that nobody
// knows, until its TTL.
func (i *Issuer) Issue(ctx context.Context, b Binding, kind string) (Challenge, error) {
	if kind != KindImage && kind != "" {
		return Challenge{}, ErrKind
	}
	if err := b.check(); err != nil {
		return Challenge{}, err
	}
	order := i.cfg.NewOrderID(b.Sale, b.User)
	if order == "" || len(order) > maxOrder {
		return Challenge{}, fmt.Errorf("captcha: order id of %d bytes, 1 to %d", len(order), maxOrder)
	}
	c := &i.cfg
	id := i.newID(b.User, c.Now().Add(c.TTL+c.SoundTTL))
	digits := captcha.RandomDigits(c.Digits)
	picture, err := i.draw(id, digits)
	if err != nil {
		return Challenge{}, err
	}
	tag := i.userTag(b.User)
	code, vals, err := i.run(ctx, "issuing challenge", issueScript,
		[]string{recordKey(tag, id), liveKey(tag), issuedKey(tag)},
		id, c.TTL.Milliseconds(), (c.TTL + c.SoundTTL).Milliseconds(), c.MaxLive, issuesPerLive*c.MaxLive,
		"answer", ascii(digits), "proof", i.proof(id, ascii(digits)), "picture", picture,
		"sale", b.Sale, "item", b.Item, "device", i.device(b.Device), "order", order)
	if err != nil {
		return Challenge{}, err
	}
	if code != codeDone {
		return Challenge{}, &TooManyError{RetryAfter: time.Duration(num(vals, 0)) * time.Millisecond}
	}
	i.unlink(ctx, tag, vals[1:])
	return Challenge{ID: id, Kind: KindImage, Prompt: "Type the digits you see or hear.", ExpiresAt: time.UnixMilli(num(vals, 0))}, nil
}

// unlink gives back the memory of closed challenges. They are off the list, so
// if this fails they merely lie there until their TTL.
func (i *Issuer) unlink(ctx context.Context, tag string, dropped []any) {
	for n := range dropped {
		if err := i.cfg.Redis.Unlink(ctx, recordKey(tag, str(dropped, n))).Err(); err != nil {
			i.cfg.Log.Debug("captcha: closed challenge not removed", "err", err)
		}
	}
}

func (b Binding) check() error {
	switch {
	case b.User == "", b.Sale == "":
		return fmt.Errorf("%w: user and sale are needed", ErrBinding)
	case len(b.User) > maxUser, len(b.Device) > maxUser, len(b.Sale) > maxName, len(b.Item) > maxName:
		return fmt.Errorf("%w: too long", ErrBinding)
	}
	return nil
}

func (i *Issuer) draw(id string, digits []byte) ([]byte, error) {
	var b bytes.Buffer
	if _, err := captcha.NewImage(id, digits, i.cfg.Width, i.cfg.Height).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("drawing picture: %w", err)
	}
	return b.Bytes(), nil
}

// proof is the keyed hash by which answers are compared; it is bound to its id.
func (i *Issuer) proof(id, answer string) string { return i.text("answer", id, answer) }

// device is kept as a keyed hash only: Redis need not know it.
func (i *Issuer) device(d string) string {
	if d == "" {
		return ""
	}
	return i.text("device", d)
}
