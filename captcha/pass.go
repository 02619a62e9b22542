package captcha

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// A token is base64url(version 1 ‖ policy 8 ‖ expires ms 8 ‖ order id, sale,
// item, user, key id, each with its length before it ‖ HMAC-SHA256 of all that).
// No field can grow at the cost of its neighbour.
const (
	passVersion = 1
	passHead    = 1 + 8 + 8
	// maxToken bounds a token before anything is decoded. The longest that can
	// be signed has 17 + 5×4 + 128+64+64+256+64 + 32 bytes, 860 characters.
	maxToken = 1024
	passLbl  = "weir captcha pass"
)

func (i *Issuer) sign(p Pass) string {
	b := []byte{passVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(p.Policy))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Expires.UnixMilli()))
	for _, f := range []string{p.OrderID, p.Sale, p.Item, p.User, p.KeyID} {
		b = appendField(b, f)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, i.passMAC(b)...))
}

func (i *Issuer) passMAC(b []byte) []byte {
	h := hmac.New(sha256.New, i.cfg.PassKey)
	h.Write(appendField(nil, passLbl))
	h.Write(b)
	return h.Sum(nil)
}

// Verify reads a token: no Redis, the signature compared in constant time.
// ErrPassInvalid comes with an empty Pass. ErrPassExpired comes with the Pass,
// which still opens its own reservation. Whose pass it is, for what, and whether
// its Policy is still good is for the caller to compare.
func (i *Issuer) Verify(token string) (Pass, error) {
	if len(token) > maxToken {
		return Pass{}, ErrPassInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The decoder skips newlines: only the one spelling of a token is a token.
	if err != nil || len(raw) < passHead+sha256.Size || base64.RawURLEncoding.EncodedLen(len(raw)) != len(token) {
		return Pass{}, ErrPassInvalid
	}
	body, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(sum, i.passMAC(body)) {
		return Pass{}, ErrPassInvalid
	}
	p, ok := parsePass(body)
	if !ok || p.KeyID != i.cfg.KeyID {
		return Pass{}, ErrPassInvalid
	}
	if !i.cfg.Now().Before(p.Expires) {
		return p, ErrPassExpired
	}
	return p, nil
}

// parsePass reads what was signed, strictly: nothing missing, nothing left over.
func parsePass(b []byte) (Pass, bool) {
	if len(b) < passHead || b[0] != passVersion {
		return Pass{}, false
	}
	p := Pass{
		Policy:  int(int64(binary.BigEndian.Uint64(b[1:]))),
		Expires: time.UnixMilli(int64(binary.BigEndian.Uint64(b[9:]))),
	}
	b = b[passHead:]
	for _, f := range []*string{&p.OrderID, &p.Sale, &p.Item, &p.User, &p.KeyID} {
		if len(b) < 4 {
			return Pass{}, false
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return Pass{}, false
		}
		*f, b = string(b[:n]), b[n:]
	}
	return p, len(b) == 0
}
