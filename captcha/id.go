package captcha

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// A challenge id is base64url(tag 8 ‖ random 16 ‖ last moment 8 ‖ MAC 16). The
// tag is a keyed hash of the user and names the Redis slot; the last moment (ms)
// is when the challenge is gone even if its sound was fetched late; the MAC is
// over all that and the user. So a foreign or forged id is known as such, and an
// old one too, without asking Redis.
const (
	tagLen    = 8
	randomLen = 16
	macLen    = 16
	bodyLen   = tagLen + randomLen + 8
	idLen     = bodyLen + macLen
)

type idParts [idLen]byte

func (p *idParts) tag() string { return base64.RawURLEncoding.EncodeToString(p[:tagLen]) }

func (p *idParts) last() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(p[tagLen+randomLen : bodyLen])))
}

func (i *Issuer) newID(user string, last time.Time) string {
	var p idParts
	copy(p[:], i.userHash(user))
	rand.Read(p[tagLen : tagLen+randomLen])
	binary.BigEndian.PutUint64(p[tagLen+randomLen:], uint64(last.UnixMilli()))
	copy(p[bodyLen:], i.hash("id", string(p[:bodyLen]), user))
	return base64.RawURLEncoding.EncodeToString(p[:])
}

func (i *Issuer) userHash(user string) []byte { return i.hash("tag", user)[:tagLen] }

// userTag is the tag of every id of user.
func (i *Issuer) userTag(user string) string {
	return base64.RawURLEncoding.EncodeToString(i.userHash(user))
}

// splitID takes an id apart without believing it.
func splitID(id string) (*idParts, bool) {
	var p idParts
	if len(id) != base64.RawURLEncoding.EncodedLen(idLen) {
		return nil, false
	}
	// The decoder skips newlines, so a full result is part of the check.
	n, err := base64.RawURLEncoding.Strict().Decode(p[:], []byte(id))
	return &p, err == nil && n == idLen
}

// open checks that id was made here for user and may still be live, and returns
// its tag. It does not talk to Redis.
func (i *Issuer) open(id, user string) (tag string, err error) {
	p, ok := splitID(id)
	if !ok || len(user) > maxUser {
		return "", ErrUnknown
	}
	if !hmac.Equal(p[bodyLen:], i.hash("id", string(p[:bodyLen]), user)[:macLen]) {
		return "", ErrUnknown
	}
	if !i.cfg.Now().Before(p.last()) {
		return "", ErrExpired
	}
	return p.tag(), nil
}

// hash is the keyed hash of the challenge side, over length-prefixed parts: no
// two lists of parts give the same input. The label keeps the uses apart.
func (i *Issuer) hash(label string, parts ...string) []byte {
	h := hmac.New(sha256.New, i.cfg.ChallengeKey)
	var buf []byte
	buf = appendField(buf, "weir captcha "+label)
	for _, p := range parts {
		buf = appendField(buf, p)
	}
	h.Write(buf)
	return h.Sum(nil)
}

// text is hash in a form that Redis and logs may see.
func (i *Issuer) text(label string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(i.hash(label, parts...))
}

func appendField(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
