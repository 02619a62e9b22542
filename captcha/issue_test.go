package captcha_test

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"weir/captcha"
	"weir/captcha/captchatest"
)

func TestThePictureIsAPNGAndTheSameOnEveryReplica(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		one, two := b.issuer(), b.issuer(func(c *captcha.Config) { c.Width, c.Height = 400, 100 })
		id, _ := b.open(one, ann)
		p1, err := one.Picture(ctx, id, "ann")
		must(t, err)
		p2, err := two.Picture(ctx, id, "ann")
		must(t, err)
		if !bytes.Equal(p1, p2) {
			t.Error("two replicas, two pictures")
		}
		img, err := png.Decode(bytes.NewReader(p1))
		must(t, err)
		want(t, "size", fmt.Sprint(img.Bounds().Size()), "(240,80)")
	})
}

func TestTheSoundIsDrawnOnceAndGivesTimeToListen(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		one, two := b.issuer(func(c *captcha.Config) { c.TTL = 2 * time.Second }), b.issuer()
		id, answer := b.open(one, ann)
		sounds := make([][]byte, 4)
		var wg sync.WaitGroup
		for n := range sounds {
			wg.Go(func() {
				s, err := []*captcha.Issuer{one, two}[n%2].Sound(ctx, id, "ann")
				if err != nil {
					t.Error(err)
				}
				sounds[n] = s
			})
		}
		wg.Wait()
		for _, s := range sounds {
			if !bytes.Equal(s, sounds[0]) || !bytes.HasPrefix(s, []byte("RIFF")) || !bytes.Contains(s[:16], []byte("WAVE")) {
				t.Fatal("want the same WAV each time")
			}
		}
		key, _ := captcha.RecordKey(id)
		if ttl := b.rdb.PTTL(ctx, key).Val(); ttl < time.Minute || ttl > 2*time.Minute {
			t.Errorf("it lives for %v, want about 2 min", ttl)
		}
		if strings.HasSuffix(t.Name(), "memory") { // 90 s are not waited for
			b.pass(90 * time.Second)
		}
		_, _, err := one.Solve(ctx, id, "ann", answer)
		must(t, err)
	})
}

func TestASoundNeverShortensALife(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.TTL, c.SoundTTL = time.Hour, time.Second })
		id, _ := b.open(i, ann)
		_, err := i.Sound(ctx, id, "ann")
		must(t, err)
		key, _ := captcha.RecordKey(id)
		if ttl := b.rdb.PTTL(ctx, key).Val(); ttl < 50*time.Minute {
			t.Errorf("it lives for %v, want about 1 h", ttl)
		}
	})
}

func TestCaptcha_T04_GarbageInRedisIsAnExpiredChallenge(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		for _, garbage := range []string{"", "12a456", "\x01\x02\xff"} {
			id, _ := b.open(i, ann)
			key, _ := captcha.RecordKey(id)
			must(t, b.rdb.HSet(ctx, key, "answer", garbage).Err())
			_, err := i.Sound(ctx, id, "ann")
			wantErr(t, "sound", err, captcha.ErrExpired)
		}
		for _, field := range []string{"proof", "order", "sale", "item", "device", "expires"} {
			id, answer := b.open(i, ann)
			key, _ := captcha.RecordKey(id)
			must(t, b.rdb.HDel(ctx, key, field).Err())
			_, _, err := i.Solve(ctx, id, "ann", answer)
			wantErr(t, "solve without "+field, err, captcha.ErrExpired)
		}
	})
}

func TestCaptcha_T21_OneMoreThanMaxLiveClosesTheOldest(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		var ids, answers []string
		for range 5 {
			id, answer := b.open(i, ann)
			ids, answers = append(ids, id), append(answers, answer)
		}
		for n, id := range ids {
			_, _, err := i.Solve(ctx, id, "ann", answers[n])
			if n < 2 {
				wantErr(t, "closed", err, captcha.ErrExpired)
			} else if err != nil {
				t.Errorf("challenge %d of 5: %v", n+1, err)
			}
		}
		id, _ := b.open(i, captcha.Binding{User: "bob", Sale: "demo"})
		if _, err := captchatest.Answer(ctx, b.rdb, id); err != nil {
			t.Errorf("bob: %v", err)
		}
	})
}

func TestAClosedChallengeWhoseRecordStayedIsClosed(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		live, _, _ := i.KeysForTest("ann")
		must(t, b.rdb.Del(ctx, live).Err())
		_, _, err := i.Solve(ctx, id, "ann", answer)
		wantErr(t, "off the list", err, captcha.ErrExpired)
	})
}

func TestTooManyChallengesAreRefusedForAWhile(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.MaxLive = 1 })
		for range 20 {
			b.open(i, ann)
		}
		_, err := i.Issue(ctx, ann, "image")
		wantErr(t, "the 21st", err, captcha.ErrTooMany)
		var many *captcha.TooManyError
		if !errors.As(err, &many) || many.RetryAfter <= 0 || many.RetryAfter > time.Minute {
			t.Fatalf("%v: want a wait of at most 1 min", many)
		}
		b.open(i, captcha.Binding{User: "bob", Sale: "demo"})

		_, issued, _ := i.KeysForTest("ann")
		must(t, b.rdb.Persist(ctx, issued).Err())
		_, err = i.Issue(ctx, ann, "image")
		wantErr(t, "a counter that lost its end", err, captcha.ErrTooMany)
		if ttl := b.rdb.PTTL(ctx, issued).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("it now ends in %v", ttl)
		}
		must(t, b.rdb.PExpire(ctx, issued, 20*time.Millisecond).Err())
		b.pass(40 * time.Millisecond)
		b.open(i, ann)
	})
}

func TestIssueRefusesWhatItCannotBind(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		_, err := i.Issue(ctx, ann, "work")
		wantErr(t, "kind", err, captcha.ErrKind)
		for _, bad := range []captcha.Binding{
			{Sale: "demo"}, {User: "ann"},
			{User: strings.Repeat("u", 257), Sale: "demo"}, {User: "ann", Sale: strings.Repeat("s", 65)},
			{User: "ann", Sale: "demo", Item: strings.Repeat("i", 65)}, {User: "ann", Sale: "demo", Device: strings.Repeat("d", 257)},
		} {
			_, err := i.Issue(ctx, bad, "image")
			wantErr(t, fmt.Sprintf("%+v", bad), err, captcha.ErrBinding)
		}
		for _, order := range []string{"", strings.Repeat("o", 129)} {
			bad := b.issuer(func(c *captcha.Config) { c.NewOrderID = func(string, string) string { return order } })
			if _, err := bad.Issue(ctx, ann, "image"); err == nil {
				t.Errorf("an order id of %d bytes was taken", len(order))
			}
		}
		want(t, "keys made", b.rdb.DBSize(ctx).Val(), 0)
	})
}

func TestCaptcha_T24_NewNamesEveryFault(t *testing.T) {
	_, err := captcha.New(captcha.Config{Digits: 4, Width: 4000, Height: 4000, MaxLive: 99, TTL: -1, KeyID: strings.Repeat("k", 65)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"redis", "new order id", "challenge key", "pass key", "key id", "digits", "width", "height", "max live", "ttl"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
}

func TestEveryAllowedPictureCanBeDrawn(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {200, 100}, {240, 80}, {800, 60}, {800, 400}} {
		for digits := 6; digits <= 10; digits++ {
			i := offline(t, func(c *captcha.Config) { c.Width, c.Height, c.Digits = size[0], size[1], digits })
			_, err := i.Issue(ctx, ann, "image") // draws before it writes
			wantErr(t, fmt.Sprint(size, digits), err, captcha.ErrUnavailable)
		}
	}
}

func TestUnicodeKeepsDigitsInRunsOfTen(t *testing.T) {
	for _, r := range unicode.Nd.R16 {
		if r.Stride != 1 || (r.Hi-r.Lo+1)%10 != 0 {
			t.Errorf("%x-%x", r.Lo, r.Hi)
		}
	}
	for _, r := range unicode.Nd.R32 {
		if r.Stride != 1 || (r.Hi-r.Lo+1)%10 != 0 {
			t.Errorf("%x-%x", r.Lo, r.Hi)
		}
	}
	want(t, "arabic-indic seven", captcha.DigitForTest('٧'), 7)
	want(t, "a long answer", len(captcha.NormaliseForTest(strings.Repeat("9", 1<<20))), 256)
}
