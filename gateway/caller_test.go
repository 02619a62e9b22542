package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func TestTheClientIsTheFirstHopThatNobodyVouchesFor(t *testing.T) {
	w := &identifier{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no header":                           {nil, "127.0.0.1"},
		"one":                                 {[]string{"203.0.113.9"}, "203.0.113.9"},
		"the attacker writes on the left":     {[]string{"6.6.6.6, 203.0.113.9"}, "203.0.113.9"},
		"two lines are one list":              {[]string{"6.6.6.6", "203.0.113.9"}, "203.0.113.9"},
		"past our own proxies":                {[]string{"203.0.113.9, 10.1.1.1, 10.2.2.2"}, "203.0.113.9"},
		"only our own":                        {[]string{"10.1.1.1"}, "10.1.1.1"},
		"garbage stops at the nearest hop":    {[]string{"203.0.113.9, unknown"}, "127.0.0.1"},
		"garbage behind our own":              {[]string{"203.0.113.9, _hidden, 10.1.1.1"}, "10.1.1.1"},
		"empty":                               {[]string{""}, "127.0.0.1"},
		"with a port":                         {[]string{"203.0.113.9:4711"}, "203.0.113.9"},
		"a mapped address":                    {[]string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"IPv6 in brackets with a port":        {[]string{"[2001:db8::1]:443"}, "2001:db8::1"},
		"IPv6 with a zone":                    {[]string{"fe80::1%eth0"}, "fe80::1"},
		"a mapped address of our own is ours": {[]string{"203.0.113.9, ::ffff:10.1.1.1"}, "203.0.113.9"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines [][]byte
			for _, l := range c.lines {
				lines = append(lines, []byte(l))
			}
			if got := w.client(netip.MustParseAddr("127.0.0.1"), lines); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOneHouseholdIsOneAddress(t *testing.T) {
	key := func(a string) string {
		var buf [16]byte
		return string([]byte(addrKey(&buf, netip.MustParseAddr(a))))
	}
	net := func(a string) string {
		var buf [16]byte
		return string([]byte(networkKey(&buf, netip.MustParseAddr(a))))
	}
	if key("2001:db8:1:2::1") != key("2001:db8:1:2:ffff::9") {
		t.Error("one /64 has two budgets")
	}
	if key("2001:db8:1:2::1") == key("2001:db8:1:3::1") || key("192.0.2.1") == key("192.0.2.2") {
		t.Error("two callers share a budget")
	}
	if net("2001:db8:1:2::1") != net("2001:db8:1:3::1") || net("192.0.2.1") != net("192.0.2.200") || net("192.0.2.1") == net("192.0.3.1") {
		t.Error("the wider net is /48 and /24")
	}
}

func identifierFor(t *testing.T, id IdentityConfig, now time.Time) *identifier {
	t.Helper()
	id.Cache = 64
	w, err := newIdentifier(Config{Identity: id}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestJWTsAreBelievedOnlyWithTheRightKeyAndTime(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	secret := []byte("0123456789abcdef0123456789abcdef")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := identifierFor(t, IdentityConfig{JWT: JWTIdentity{
		Algorithms: []string{"HS256", "RS256", "EdDSA"}, Secret: secret, PublicKeys: []any{&rsaKey.PublicKey, edPublic},
		Issuer: "shop", Audience: "sale", Claim: "sub", Leeway: 5 * time.Second,
	}}, now)
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"sub": "alice", "exp": now.Add(time.Hour).Unix(), "iss": "shop", "aud": "sale"}
	}
	with := func(k string, v any) jwt.MapClaims { c := good(); c[k] = v; return c }
	without := func(k string) jwt.MapClaims { c := good(); delete(c, k); return c }
	for name, c := range map[string]struct {
		method jwt.SigningMethod
		key    any
		claims jwt.MapClaims
		ok     bool
	}{
		"HS256":                        {jwt.SigningMethodHS256, secret, good(), true},
		"RS256":                        {jwt.SigningMethodRS256, rsaKey, good(), true},
		"EdDSA":                        {jwt.SigningMethodEdDSA, edKey, good(), true},
		"another secret":               {jwt.SigningMethodHS256, []byte("another secret of thirty-two byt"), good(), false},
		"an algorithm not listed":      {jwt.SigningMethodHS512, secret, good(), false},
		"the public key as a secret":   {jwt.SigningMethodHS256, []byte(edPublic), good(), false},
		"no algorithm":                 {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(), false},
		"expired":                      {jwt.SigningMethodHS256, secret, with("exp", now.Add(-time.Minute).Unix()), false},
		"expired within the leeway":    {jwt.SigningMethodHS256, secret, with("exp", now.Add(-3*time.Second).Unix()), true},
		"without an end":               {jwt.SigningMethodHS256, secret, without("exp"), false},
		"not yet valid":                {jwt.SigningMethodHS256, secret, with("nbf", now.Add(time.Minute).Unix()), false},
		"another issuer":               {jwt.SigningMethodHS256, secret, with("iss", "evil"), false},
		"another audience":             {jwt.SigningMethodHS256, secret, with("aud", "other"), false},
		"without a subject":            {jwt.SigningMethodHS256, secret, without("sub"), false},
		"a subject that is no text":    {jwt.SigningMethodHS256, secret, with("sub", 7), false},
		"a subject with a line break":  {jwt.SigningMethodHS256, secret, with("sub", "a\nb"), false},
		"a subject longer than a name": {jwt.SigningMethodHS256, secret, with("sub", string(make([]byte, 200))), false},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := jwt.NewWithClaims(c.method, c.claims).SignedString(c.key)
			if err != nil {
				t.Fatal(err)
			}
			v, err := w.checkJWT(token)
			if (err == nil) != c.ok || c.ok && v.user != "alice" {
				t.Errorf("got %+v %v", v, err)
			}
		})
	}
}

func TestASignedCookieNamesItsUser(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	w := identifierFor(t, IdentityConfig{Cookie: CookieIdentity{Name: "u", Secret: secret}}, time.Now())
	mac := hex.EncodeToString(sum(secret, "a.b"))
	for token, want := range map[string]string{"a.b." + mac: "a.b", "a.c." + mac: "", "a.b": "", "." + mac: "", "a.b.zz": "", "": ""} {
		v, err := w.checkCookie(token)
		if (err == nil) != (want != "") || v.user != want {
			t.Errorf("%q: got %+v %v", token, v, err)
		}
	}
}

// expiredToken is an HS256 token that was over a minute ago, signed with key,
// and who checks it with secret.
func expiredToken(t *testing.T, secret, key []byte) (*identifier, string) {
	t.Helper()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	w := identifierFor(t, IdentityConfig{JWT: JWTIdentity{Algorithms: []string{"HS256"}, Secret: secret, Claim: "sub"}}, now)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "a", "exp": now.Add(-time.Minute).Unix()}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return w, token
}
