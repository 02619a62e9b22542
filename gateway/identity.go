package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"weir/limiter"
)

// IdentityConfig says where a user's name is believed from. Sources are asked
// in the order of the fields; the first that names one wins.
type IdentityConfig struct {
	// Header carries the user id; it is read from trusted proxies only.
	Header string
	Cookie CookieIdentity
	JWT    JWTIdentity
	// DeviceHeader carries a device id, from trusted proxies only.
	DeviceHeader string
	// DeviceCookie is weir's own signed cookie for telling devices apart.
	DeviceCookie string
	// Cache is how many verified tokens are remembered.
	Cache int
}

// CookieIdentity is a cookie `user.hex(HMAC-SHA256(secret, user))`.
type CookieIdentity struct {
	Name   string
	Secret []byte
}

// JWTIdentity is a signed token, in a cookie or as a bearer token. An exp
// claim is required.
type JWTIdentity struct {
	Cookie, Header   string
	Algorithms       []string // of HS256, RS256, EdDSA
	Secret           []byte   // for HS256
	PublicKeys       []any    // *rsa.PublicKey, ed25519.PublicKey
	Issuer, Audience string
	Claim            string // which claim names the user
	Leeway           time.Duration
}

const (
	maxTokenBytes = 4096
	maxUserBytes  = 128
	cacheShards   = 16
)

var (
	errNoToken  = errors.New("no token")
	errBadToken = errors.New("token not valid")
)

// identifier reads who a caller is.
type identifier struct {
	cfg     IdentityConfig
	device  []byte // key of the device cookie
	proxies []netip.Prefix
	now     func() time.Time
	parser  *jwt.Parser
	seed    maphash.Seed
	known   [cacheShards]*lru.Cache[string, verified]
}

// verified is a token that was checked, and until when that holds. The user is
// "" when it did not verify.
type verified struct {
	user  string
	until time.Time
}

func newIdentifier(cfg Config, now func() time.Time) (*identifier, error) {
	w := &identifier{cfg: cfg.Identity, device: cfg.Keys.Device, proxies: cfg.TrustedProxies, now: now, seed: maphash.MakeSeed()}
	for i := range w.known {
		shard, err := lru.New[string, verified](max(cfg.Identity.Cache/cacheShards, 1))
		if err != nil {
			return nil, fmt.Errorf("identity.cache: %w", err)
		}
		w.known[i] = shard
	}
	j := cfg.Identity.JWT
	opts := []jwt.ParserOption{jwt.WithValidMethods(j.Algorithms), jwt.WithExpirationRequired(), jwt.WithLeeway(j.Leeway), jwt.WithTimeFunc(now)}
	if j.Issuer != "" {
		opts = append(opts, jwt.WithIssuer(j.Issuer))
	}
	if j.Audience != "" {
		opts = append(opts, jwt.WithAudience(j.Audience))
	}
	w.parser = jwt.NewParser(opts...)
	return w, nil
}

// identity is hop 2, second half. A token seen before costs a look-up; a new
// one is charged to its address before its signature is checked, because a
// check costs up to 40 µs and a flood of made-up tokens is cheap to send. A
// token that does not verify leaves the caller anonymous. A forged one is an
// offence, once; an expired one is what every browser has some day.
func (g *Gateway) identity(x *exchange) Outcome {
	x.caller.Device = g.who.deviceOf(x)
	if user := g.who.headerUser(x); user != "" {
		x.caller.User = user
		return Outcome{}
	}
	for _, c := range g.who.credentials(x) {
		user, out := g.believe(x, c)
		if user != "" || out.Kind != goOn {
			x.caller.User = user
			return out
		}
	}
	return Outcome{}
}

// believe gives the user of one credential, "" when it does not verify.
func (g *Gateway) believe(x *exchange, c credential) (string, Outcome) {
	if c.token == "" {
		return "", Outcome{}
	}
	shard := g.who.shard(c.token)
	if v, ok := shard.Get(c.token); ok && g.who.now().Before(v.until) {
		return v.user, Outcome{}
	}
	if d := take(g.tokens, limiter.Keys{addrKey(&x.scratch[0], x.caller.Addr)}); !d.OK {
		return "", Outcome{Kind: SharedLimited, RetryAfter: d.RetryAfter}
	}
	v, err := c.check(c.token)
	if err != nil {
		v = verified{until: g.who.now().Add(badTokenTTL)}
		if forged(err) && !crossSite(x) {
			g.judge.tell(x.caller, badTokenOffence)
		}
	}
	if !errors.Is(err, jwt.ErrTokenNotValidYet) { // soon it may be
		shard.Add(strings.Clone(c.token), v)
	}
	return v.user, Outcome{}
}

// badTokenTTL is how long a token that did not verify is remembered.
const badTokenTTL = time.Minute

// forged tells a signature that was made up from a genuine token that is over,
// or meant for somebody else.
func forged(err error) bool { return !errors.Is(err, jwt.ErrTokenInvalidClaims) }

func (w *identifier) shard(token string) *lru.Cache[string, verified] {
	return w.known[maphash.String(w.seed, token)%cacheShards]
}

// headerUser believes a user header from our own proxies alone.
func (w *identifier) headerUser(x *exchange) string {
	if w.cfg.Header == "" || !x.caller.trusted {
		return ""
	}
	user := x.c.Request().Header.Peek(w.cfg.Header)
	if !validUser(text(user)) {
		return ""
	}
	return string(user)
}

// credential is one token of a request, and how to check it.
type credential struct {
	token string
	check func(string) (verified, error)
}

// credentials are what a request brings, in the order in which they are
// believed; a place without one is empty.
func (w *identifier) credentials(x *exchange) (found [3]credential) {
	h := &x.c.Request().Header
	if w.cfg.Cookie.Name != "" {
		found[0] = credential{bounded(text(h.Cookie(w.cfg.Cookie.Name))), w.checkCookie}
	}
	if w.cfg.JWT.Cookie != "" {
		found[1] = credential{bounded(text(h.Cookie(w.cfg.JWT.Cookie))), w.checkJWT}
	}
	if w.cfg.JWT.Header != "" {
		scheme, t, _ := strings.Cut(text(h.Peek(w.cfg.JWT.Header)), " ")
		if strings.EqualFold(scheme, "Bearer") {
			found[2] = credential{bounded(t), w.checkJWT}
		}
	}
	return found
}

// bounded drops a token that is too long to be one.
func bounded(token string) string {
	if len(token) > maxTokenBytes {
		return ""
	}
	return token
}

func (w *identifier) checkCookie(token string) (verified, error) {
	user, mac, ok := cutLast(token, '.')
	if !ok || !validUser(user) {
		return verified{}, errBadToken
	}
	given, err := hex.DecodeString(mac)
	if err != nil || !hmac.Equal(given, sum(w.cfg.Cookie.Secret, user)) {
		return verified{}, errBadToken
	}
	return verified{user: strings.Clone(user), until: w.now().Add(time.Hour)}, nil
}

func (w *identifier) checkJWT(token string) (verified, error) {
	claims := jwt.MapClaims{}
	if _, err := w.parser.ParseWithClaims(strings.Clone(token), claims, w.keyFor); err != nil {
		return verified{}, fmt.Errorf("%w: %w", errBadToken, err)
	}
	user, ok := claims[w.cfg.JWT.Claim].(string)
	if !ok || !validUser(user) {
		return verified{}, errBadToken
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil {
		return verified{}, errBadToken
	}
	return verified{user: strings.Clone(user), until: exp.Time.Add(w.cfg.JWT.Leeway)}, nil
}

// keyFor hands out only keys that fit the token's algorithm, so that a public
// key is never taken for an HMAC secret.
func (w *identifier) keyFor(t *jwt.Token) (any, error) {
	if _, ok := t.Method.(*jwt.SigningMethodHMAC); ok {
		if len(w.cfg.JWT.Secret) == 0 {
			return nil, errNoToken
		}
		return w.cfg.JWT.Secret, nil
	}
	set := jwt.VerificationKeySet{}
	for _, k := range w.cfg.JWT.PublicKeys {
		if fits(t.Method, k) {
			set.Keys = append(set.Keys, k)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errNoToken
	}
	return set, nil
}

// validUser bounds a user id: it becomes a key, a header and a log field.
func validUser(s string) bool {
	if s == "" || len(s) > maxUserBytes {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func sum(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write([]byte(p))
	}
	return mac.Sum(nil)
}
