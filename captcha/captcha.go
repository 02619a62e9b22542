// Package captcha makes proof of a human and its short-lived receipt.
//
// A Challenge is a picture (or, for who cannot see it, a sound) of digits. Its
// answer lies in Redis and is burned by the first attempt, right or wrong. The
// right one yields a Pass: a signed token that any replica checks without Redis
// and whose order id is the idempotency key of one order. So one solve buys at
// most once, and a lost reply can be asked for again.
//
// What is drawn is weak against a machine that reads digits; that is known. It
// makes a bot pay for each try, and the order id makes a solve worth one order.
package captcha

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrWrong: the answer is not the one; the challenge is burned.
	ErrWrong = errors.New("captcha: wrong answer")
	// ErrExpired: the challenge was made for this user and is gone: too old,
	// answered already, or dropped for a newer one.
	ErrExpired = errors.New("captcha: challenge expired")
	// ErrUnknown: the id was not made here, or not for this user.
	ErrUnknown = errors.New("captcha: unknown challenge")
	// ErrForeign: the answer is right, the challenge was made for another sale,
	// item or device; it is burned.
	ErrForeign = errors.New("captcha: challenge of another sale, item or device")
	// ErrTooMany: this user asks for challenges faster than anyone solves them.
	// The error in the chain is a *TooManyError.
	ErrTooMany = errors.New("captcha: too many challenges")
	// ErrKind: no such kind of challenge.
	ErrKind = errors.New("captcha: unknown kind of challenge")
	// ErrBinding: user or sale is missing, or a value is too long.
	ErrBinding = errors.New("captcha: impossible binding")
	// ErrPassInvalid: the token was not signed here, or is cut or changed.
	ErrPassInvalid = errors.New("captcha: invalid pass")
	// ErrPassExpired: the token is genuine and too old to buy with.
	ErrPassExpired = errors.New("captcha: pass expired")
	// ErrUnavailable: Redis did not answer. Whether the step took effect is not
	// known; the same step may be asked again.
	ErrUnavailable = errors.New("captcha: store unavailable")
)

// TooManyError is an ErrTooMany that knows when to come back.
type TooManyError struct{ RetryAfter time.Duration }

func (e *TooManyError) Error() string { return ErrTooMany.Error() }
func (e *TooManyError) Unwrap() error { return ErrTooMany }

// KindImage is the one kind there is: digits as a picture, or as a sound.
const KindImage = "image"

const (
	// issuesPerLive × MaxLive challenges may be issued to a user within one TTL;
	// with the defaults that is one each second.
	issuesPerLive = 20
	// verdictTTL is how long a burned challenge's verdict is told again to who
	// repeats the same answer.
	verdictTTL = 10 * time.Second
	maxUser    = 256 // bytes; also of a device
	maxName    = 64  // bytes of a sale, an item, a key id
	maxOrder   = 128 // bytes of an order id
	minKey     = 32  // bytes of a secret
)

// Config of an Issuer. All replicas that share a Redis need the same keys.
type Config struct {
	Redis redis.UniversalClient // its owner sets the timeouts; each call ends with its ctx
	Now   func() time.Time      // should follow Redis TIME; nil = time.Now

	ChallengeKey []byte // ≥ 32 bytes; signs ids and hashes answers
	PassKey      []byte // ≥ 32 bytes; signs passes
	KeyID        string // of PassKey, ≤ 64 bytes; a pass under another key id is invalid
	Policy       int    // version of the rules under which a pass is given; travels in it

	TTL      time.Duration // of a challenge; 0 = 60 s
	SoundTTL time.Duration // of a challenge from the first time its sound is fetched; 0 = 120 s
	PassTTL  time.Duration // 0 = 10 min

	Digits        int // of an answer, 6 to 10; 0 = 6
	Width, Height int // of the picture in pixels; 0 = 240 × 80
	MaxLive       int // challenges a user may have open, 1 to 16; an older one is dropped; 0 = 3

	// NewOrderID makes the order id of a pass, ≤ 128 bytes. It is called once for
	// each challenge.
	NewOrderID func(sale, user string) string
	Log        *slog.Logger // nil = no log; never sees an answer
}

// Binding is what a challenge is made for. User and Sale are needed; user and
// device ≤ 256 bytes, sale and item ≤ 64.
type Binding struct{ User, Sale, Item, Device string }

// Challenge is an open question. Its id is of no use to another user.
type Challenge struct {
	ID, Kind, Prompt string
	ExpiresAt        time.Time // a fetched sound extends it
}

// Pass is what a token says.
type Pass struct {
	OrderID, Sale, Item, User, KeyID string
	Policy                           int
	Expires                          time.Time // whole ms; spent from this moment on
}

// Issuer issues challenges and passes. All methods may be called from any
// goroutine and on any replica.
type Issuer struct{ cfg Config }

// New checks the config, fills in its defaults, and joins all faults in the
// error. It does not talk to Redis.
func New(cfg Config) (*Issuer, error) {
	orElse(&cfg.TTL, time.Minute)
	orElse(&cfg.SoundTTL, 2*time.Minute)
	orElse(&cfg.PassTTL, 10*time.Minute)
	orElse(&cfg.Digits, 6)
	orElse(&cfg.Width, 240)
	orElse(&cfg.Height, 80)
	orElse(&cfg.MaxLive, 3)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.faults(); err != nil {
		return nil, err
	}
	return &Issuer{cfg: cfg}, nil
}

func orElse[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// longest bounds each lifetime: a challenge or pass of a day is no proof.
const longest = 24 * time.Hour

func (c *Config) faults() error {
	var faults []error
	say := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("captcha: "+format, args...))
		}
	}
	say(c.Redis == nil, "redis: missing")
	say(c.NewOrderID == nil, "new order id: missing")
	say(len(c.ChallengeKey) < minKey, "challenge key: %d bytes, at least %d", len(c.ChallengeKey), minKey)
	say(len(c.PassKey) < minKey, "pass key: %d bytes, at least %d", len(c.PassKey), minKey)
	say(len(c.KeyID) > maxName, "key id: %d bytes, at most %d", len(c.KeyID), maxName)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"ttl", c.TTL}, {"sound ttl", c.SoundTTL}, {"pass ttl", c.PassTTL}} {
		say(d.d < time.Millisecond || d.d > longest, "%s: %v, 1ms to %v", d.name, d.d, longest)
	}
	// Below six digits guessing is worth while; the bounds of the picture are
	// those within which every length can be drawn.
	say(c.Digits < 6 || c.Digits > 10, "digits: %d, 6 to 10", c.Digits)
	say(c.Width < 200 || c.Width > 800, "width: %d, 200 to 800", c.Width)
	say(c.Height < 60 || c.Height > 400, "height: %d, 60 to 400", c.Height)
	say(c.Height > c.Width/2, "height: %d, at most half the width %d", c.Height, c.Width)
	say(c.MaxLive < 1 || c.MaxLive > 16, "max live: %d, 1 to 16", c.MaxLive)
	return errors.Join(faults...)
}
