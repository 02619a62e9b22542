package captcha_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/captcha"
)

// offline is an Issuer for what needs no Redis: its client reaches nothing.
func offline(t testing.TB, change ...func(*captcha.Config)) *captcha.Issuer {
	t.Helper()
	b := &bed{log: new(bytes.Buffer)}
	cfg := b.config()
	closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	closed.Close()
	cfg.Redis = closed
	for _, c := range change {
		c(&cfg)
	}
	i, err := captcha.New(cfg)
	must(t, err)
	return i
}

func somePass() captcha.Pass {
	return captcha.Pass{OrderID: "o1", Sale: "demo", Item: "1001", User: "ann", KeyID: "k1", Policy: 7, Expires: time.UnixMilli(2e12)}
}

func TestOnlyTheTokenThatWasSignedIsOne(t *testing.T) {
	i := offline(t)
	token := i.SignForTest(somePass())
	got, err := i.Verify(token)
	must(t, err)
	want(t, "pass", got, somePass())
	raw, _ := base64.RawURLEncoding.DecodeString(token)
	for n := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[n/8] ^= 1 << (n % 8)
		reject(t, i, fmt.Sprint("bit ", n), base64.RawURLEncoding.EncodeToString(bad))
	}
	for n := range len(token) {
		reject(t, i, fmt.Sprint("cut at ", n), token[:n])
	}
	for what, bad := range map[string]string{
		"newline": token[:9] + "\n" + token[9:], "longer": token + "A", "padded": token + "=",
		"space": " " + token, "empty": "", "long": strings.Repeat("A", 1<<20), "at the bound": strings.Repeat("A", 1024),
	} {
		reject(t, i, what, bad)
	}
}

func reject(t *testing.T, i *captcha.Issuer, what, token string) {
	t.Helper()
	p, err := i.Verify(token)
	wantErr(t, what, err, captcha.ErrPassInvalid)
	want(t, what, p, captcha.Pass{})
}

func TestAForeignTokenIsInvalid(t *testing.T) {
	i := offline(t)
	reject(t, i, "another secret", offline(t, func(c *captcha.Config) { c.PassKey = bytes.Repeat([]byte{9}, 32) }).SignForTest(somePass()))
	other := somePass()
	other.KeyID = "k2"
	reject(t, i, "another key id", i.SignForTest(other))
	same := offline(t, func(c *captcha.Config) { c.ChallengeKey = bytes.Repeat([]byte{9}, 32) })
	_, err := i.Verify(same.SignForTest(somePass()))
	must(t, err)
}

func TestCaptcha_T23_FieldsCannotTradeBytes(t *testing.T) {
	i := offline(t)
	a, b := somePass(), somePass()
	a.Sale, a.Item = "demo1", "001"
	b.Sale, b.Item = "demo", "1001"
	if i.SignForTest(a) == i.SignForTest(b) {
		t.Error("two passes, one token")
	}
}

func TestAnExpiredPassIsReturnedBesideItsError(t *testing.T) {
	now := time.UnixMilli(2e12 - 1)
	i := offline(t, func(c *captcha.Config) { c.Now = func() time.Time { return now } })
	token := i.SignForTest(somePass())
	_, err := i.Verify(token)
	must(t, err)
	now = now.Add(time.Millisecond) // half open: at its expiry it is expired
	p, err := i.Verify(token)
	wantErr(t, "at expiry", err, captcha.ErrPassExpired)
	want(t, "the pass beside it", p, somePass())
}

func TestTheLongestPassFits(t *testing.T) {
	i := offline(t, func(c *captcha.Config) { c.KeyID = strings.Repeat("k", 64) })
	p := captcha.Pass{
		OrderID: strings.Repeat("o", 128), Sale: strings.Repeat("s", 64), Item: strings.Repeat("i", 64),
		User: strings.Repeat("u", 256), KeyID: strings.Repeat("k", 64), Policy: -1, Expires: time.UnixMilli(2e12),
	}
	got, err := i.Verify(i.SignForTest(p))
	must(t, err)
	want(t, "pass", got, p)
}

func TestForgedIDsNeedNoRedis(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		id, _ := b.open(b.issuer(), ann)
		i := offline(t) // same keys, no Redis
		raw, _ := base64.RawURLEncoding.DecodeString(id)
		for n := range len(raw) * 8 {
			bad := bytes.Clone(raw)
			bad[n/8] ^= 1 << (n % 8)
			_, _, err := i.Solve(ctx, base64.RawURLEncoding.EncodeToString(bad), "ann", "1")
			wantErr(t, fmt.Sprint("bit ", n), err, captcha.ErrUnknown)
		}
		for _, bad := range []string{"", "nope", id + "A", id[1:], id[:63] + "\n", strings.Repeat("A", 64), strings.Repeat("x", 1<<20)} {
			_, err := i.Picture(ctx, bad, "ann")
			wantErr(t, "forged", err, captcha.ErrUnknown)
		}
		old := offline(t, func(c *captcha.Config) { c.Now = func() time.Time { return time.Now().Add(time.Hour) } })
		_, err := old.Picture(ctx, id, "ann")
		wantErr(t, "own and old", err, captcha.ErrExpired)
		_, err = old.Picture(ctx, id, "bob")
		wantErr(t, "foreign and old", err, captcha.ErrUnknown)
	})
}

func FuzzVerify(f *testing.F) {
	i := offline(f)
	good := i.SignForTest(somePass())
	f.Add(good)
	f.Add("")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, token string) {
		p, err := i.Verify(token)
		if err == nil && i.SignForTest(p) != token {
			t.Errorf("%q is taken and was never signed", token)
		}
	})
}

func FuzzChallengeID(f *testing.F) {
	i := offline(f)
	f.Add("", "ann")
	f.Add(strings.Repeat("A", 64), "ann")
	f.Fuzz(func(t *testing.T, id, user string) {
		if _, err := i.Picture(ctx, id, user); err != captcha.ErrUnknown {
			t.Errorf("%q of %q: %v", id, user, err)
		}
		if key, err := captcha.RecordKey(id); err == nil && (!strings.HasPrefix(key, "weir:{captcha:") || strings.Count(key, "}") != 1) {
			t.Errorf("key %q", key)
		}
	})
}
