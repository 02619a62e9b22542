package captcha_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/captcha"
	"weir/captcha/captchatest"
)

var ctx = context.Background()

func TestTheRightAnswerGivesAPass(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		before := time.Now().Truncate(time.Millisecond)
		c, err := i.Issue(ctx, ann, "")
		must(t, err)
		if c.Kind != "image" || c.Prompt == "" || c.ExpiresAt.Before(before.Add(time.Minute)) || c.ExpiresAt.After(time.Now().Add(time.Minute+time.Second)) {
			t.Errorf("%+v: want an image that expires in 60 s", c)
		}
		answer, err := captchatest.Answer(ctx, b.rdb, c.ID)
		must(t, err)
		token, p, err := i.Solve(ctx, c.ID, "ann", answer)
		must(t, err)
		if p.OrderID == "" || p.Sale != "demo" || p.Item != "1001" || p.User != "ann" || p.KeyID != "k1" || p.Policy != 7 {
			t.Errorf("%+v", p)
		}
		if left := time.Until(p.Expires); left < 9*time.Minute || left > 10*time.Minute+time.Second {
			t.Errorf("expires in %v, want 10 min", left)
		}
		got, err := b.issuer().Verify(token) // on another replica
		must(t, err)
		want(t, "verified", got, p)
	})
}

func TestCaptcha_T08_AWrongAnswerBurns(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		token, p, err := i.Solve(ctx, id, "ann", other(answer))
		wantErr(t, "wrong", err, captcha.ErrWrong)
		want(t, "token", token, "")
		want(t, "what is known of it", p, captcha.Pass{Sale: "demo", Item: "1001", User: "ann"})
		_, _, err = i.Solve(ctx, id, "ann", other(answer))
		wantErr(t, "the same again: the same verdict", err, captcha.ErrWrong)
		_, _, err = i.Solve(ctx, id, "ann", answer)
		wantErr(t, "right, after wrong", err, captcha.ErrExpired)
		_, err = captchatest.Answer(ctx, b.rdb, id)
		wantErr(t, "its answer", err, captcha.ErrExpired)
		_, err = i.Picture(ctx, id, "ann")
		wantErr(t, "its picture", err, captcha.ErrExpired)
		_, err = i.Sound(ctx, id, "ann")
		wantErr(t, "its sound", err, captcha.ErrExpired)
	})
}

func TestCaptcha_T05_T06_RightAnswersInParallelAreOneOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		replicas := []*captcha.Issuer{b.issuer(), b.issuer(), b.issuer()}
		id, answer := b.open(replicas[0], ann)
		var mu sync.Mutex
		var wg sync.WaitGroup
		ids, tokens := map[string]int{}, map[string]int{}
		for n := range 50 {
			wg.Go(func() {
				token, p, err := replicas[n%3].Solve(ctx, id, "ann", answer)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[p.OrderID]++
				tokens[token]++
			})
		}
		wg.Wait()
		if len(ids) != 1 || len(tokens) != 1 {
			t.Errorf("%d order ids and %d tokens from one solve: %v", len(ids), len(tokens), ids)
		}
	})
}

func TestCaptcha_T01_T02_MalformedAnswersBurn(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.MaxLive = 16 })
		for _, bad := range []string{"", " ", "null", "[]", "0", ",", "-1", "abc", "12345", "\xff\xfe", strings.Repeat("1", 1<<20)} {
			id, answer := b.open(i, ann)
			_, _, err := i.Solve(ctx, id, "ann", bad)
			wantErr(t, "malformed", err, captcha.ErrWrong)
			_, _, err = i.Solve(ctx, id, "ann", answer)
			wantErr(t, "right, after malformed", err, captcha.ErrExpired)
			_, _, err = i.Solve(ctx, "nope", "ann", bad)
			wantErr(t, "unknown id", err, captcha.ErrUnknown)
		}
	})
}

func TestAnswersAreTakenAsPeopleTypeThem(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.MaxLive = 16 })
		for name, zero := range map[string]rune{"full width": '０', "arabic-indic": '٠', "persian": '۰', "devanagari": '०', "ascii": '0'} {
			id, answer := b.open(i, ann)
			typed := "\u200f "
			for _, d := range answer {
				typed += string(zero+d-'0') + "\u00a0"
			}
			_, _, err := i.Solve(ctx, id, "ann", typed)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestAnotherUserCannotTouchAChallenge(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		_, _, err := i.Solve(ctx, id, "bob", answer)
		wantErr(t, "solve", err, captcha.ErrUnknown)
		_, err = i.Picture(ctx, id, "bob")
		wantErr(t, "picture", err, captcha.ErrUnknown)
		_, err = i.Sound(ctx, id, "bob")
		wantErr(t, "sound", err, captcha.ErrUnknown)
		_, _, err = i.Solve(ctx, id, "ann", answer)
		must(t, err)
	})
}

func TestAnotherDeviceSaleOrItemIsForeignAndBurns(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		for name, by := range map[string]captcha.Binding{
			"device":    {User: "ann", Device: "phone"},
			"no device": {User: "ann"},
			"sale":      {User: "ann", Device: "laptop", Sale: "other"},
			"item":      {User: "ann", Device: "laptop", Sale: "demo", Item: "1002"},
		} {
			id, answer := b.open(i, ann)
			for range 2 {
				token, _, err := i.SolveFor(ctx, id, by, answer)
				wantErr(t, name, err, captcha.ErrForeign)
				want(t, name, token, "")
			}
			_, _, err := i.SolveFor(ctx, id, ann, answer)
			wantErr(t, name+", then the right one", err, captcha.ErrExpired)
			_, _, err = i.Solve(ctx, id, "ann", answer)
			wantErr(t, name+", then without a device", err, captcha.ErrExpired)
		}
		id, answer := b.open(i, ann)
		_, _, err := i.SolveFor(ctx, id, captcha.Binding{User: "ann", Device: "laptop"}, answer)
		must(t, err)
		_, _, err = i.SolveFor(ctx, id, captcha.Binding{User: "ann", Device: "phone"}, answer)
		wantErr(t, "a verdict is told to the device that heard it", err, captcha.ErrExpired)
	})
}

func TestCaptcha_T22_AnOldChallengeIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.TTL = time.Second })
		id, answer := b.open(i, ann)
		b.pass(1100 * time.Millisecond)
		_, _, err := i.Solve(ctx, id, "ann", answer)
		wantErr(t, "old", err, captcha.ErrExpired)
	})
}

func TestCaptcha_T22_TheTimeInsideTheRecordCountsToo(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		key, _ := captcha.RecordKey(id)
		must(t, b.rdb.HSet(ctx, key, "expires", "1000").Err())
		_, _, err := i.Solve(ctx, id, "ann", answer)
		wantErr(t, "old, and Redis kept it", err, captcha.ErrExpired)
	})
}

func TestAVerdictIsToldAgainForAWhileOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		_, p, err := i.Solve(ctx, id, "ann", answer)
		must(t, err)
		_, again, err := i.Solve(ctx, id, "ann", " "+answer+" ")
		must(t, err)
		want(t, "told again", again, p)
		// On a real Redis its end is brought near rather than waited for.
		keys, err := b.rdb.Keys(ctx, "*verdict*").Result()
		must(t, err)
		want(t, "verdicts", len(keys), 1)
		if ttl := b.rdb.PTTL(ctx, keys[0]).Val(); ttl <= 0 || ttl > 10*time.Second {
			t.Errorf("the verdict is kept for %v", ttl)
		}
		must(t, b.rdb.PExpire(ctx, keys[0], 20*time.Millisecond).Err())
		b.pass(40 * time.Millisecond)
		_, _, err = i.Solve(ctx, id, "ann", answer)
		wantErr(t, "later", err, captcha.ErrExpired)
	})
}

func TestALostReplyIsToldAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		net := new(lossy)
		b.rdb.AddHook(net)
		i := b.issuer()
		id, answer := b.open(i, ann)
		net.lose.Store(1)
		_, _, err := i.Solve(ctx, id, "ann", answer)
		wantErr(t, "lost", err, captcha.ErrUnavailable)
		wantErr(t, "lost, cause", err, errLost)
		_, p, err := i.Solve(ctx, id, "ann", answer)
		must(t, err)
		want(t, "and the next solve", func() string { _, n := b.solve(i, ann); return n.OrderID }(), p.OrderID)

		id, answer = b.open(i, ann)
		net.lose.Store(1)
		_, _, err = i.Solve(ctx, id, "ann", other(answer))
		wantErr(t, "lost wrong", err, captcha.ErrUnavailable)
		_, _, err = i.Solve(ctx, id, "ann", answer)
		wantErr(t, "another answer after a lost wrong one", err, captcha.ErrExpired)
		_, _, err = i.Solve(ctx, id, "ann", other(answer))
		wantErr(t, "the lost one again", err, captcha.ErrWrong)
	})
}

func TestEveryOtherStepMayFailAfterItTookEffect(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		net := new(lossy)
		b.rdb.AddHook(net)
		i := b.issuer(func(c *captcha.Config) { c.MaxLive = 2 })
		id, answer := b.open(i, ann)
		net.lose.Store(1)
		_, err := i.Issue(ctx, ann, "image")
		wantErr(t, "issue", err, captcha.ErrUnavailable)
		net.lose.Store(1)
		_, err = i.Sound(ctx, id, "ann")
		wantErr(t, "sound", err, captcha.ErrUnavailable)
		first, err := i.Sound(ctx, id, "ann")
		must(t, err)
		second, err := i.Sound(ctx, id, "ann")
		must(t, err)
		want(t, "the sound that was kept", string(second) == string(first), true)
		_, p, err := i.Solve(ctx, id, "ann", answer)
		must(t, err)
		net.lose.Store(1)
		wantErr(t, "forget", i.Forget(ctx, p), captcha.ErrUnavailable)
		must(t, i.Forget(ctx, p))
		_, next := b.solve(i, ann)
		if next.OrderID == p.OrderID {
			t.Error("a forgotten order id came back")
		}
	})
}

// A client that retries by itself sends a script again whose reply was lost.
func TestAScriptThatRunsTwiceDoesItsWorkOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.rdb.AddHook(twice{})
		i := b.issuer(func(c *captcha.Config) { c.MaxLive = 1 })
		for n := range 20 { // the bound of what may be issued
			id, answer := b.open(i, ann)
			if n == 0 {
				_, err := i.Sound(ctx, id, "ann")
				must(t, err)
			}
			_, p, err := i.Solve(ctx, id, "ann", answer)
			must(t, err)
			must(t, i.Forget(ctx, p))
		}
	})
}

func TestOneLivePassPerUserAndSale(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		_, first := b.solve(i, ann)
		_, second := b.solve(i, ann)
		want(t, "a second solve", second.OrderID, first.OrderID)
		if second.Expires.Before(first.Expires) {
			t.Error("the second solve did not renew the pass")
		}
		_, elsewhere := b.solve(i, captcha.Binding{User: "ann", Sale: "other", Item: "1001"})
		_, bob := b.solve(i, captcha.Binding{User: "bob", Sale: "demo", Item: "1001"})
		if elsewhere.OrderID == first.OrderID || bob.OrderID == first.OrderID {
			t.Error("an order id for two")
		}

		must(t, i.Forget(ctx, captcha.Pass{User: "ann", Sale: "demo", OrderID: "of long ago"}))
		_, third := b.solve(i, ann)
		want(t, "after another pass was forgotten", third.OrderID, first.OrderID)

		must(t, i.Forget(ctx, first))
		must(t, i.Forget(ctx, first))
		_, fourth := b.solve(i, ann)
		if fourth.OrderID == first.OrderID {
			t.Error("a spent order id came back")
		}
		must(t, i.Forget(ctx, first))
		_, fifth := b.solve(i, ann)
		want(t, "a late Forget of the first", fifth.OrderID, fourth.OrderID)
	})
}

func TestAnExpiredPassIsNotGivenAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer(func(c *captcha.Config) { c.PassTTL = 50 * time.Millisecond })
		_, first := b.solve(i, ann)
		b.pass(100 * time.Millisecond)
		_, second := b.solve(i, ann)
		if second.OrderID == first.OrderID {
			t.Error("the order id of an expired pass came back")
		}
	})
}

func TestCaptcha_T19_WithoutRedisNothingPasses(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		i := b.issuer()
		id, answer := b.open(i, ann)
		token, p := b.solve(i, ann)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		got, _, err := i.Solve(gone, id, "ann", answer)
		want(t, "token", got, "")
		_, issueErr := i.Issue(gone, ann, "image")
		_, pictureErr := i.Picture(gone, id, "ann")
		_, soundErr := i.Sound(gone, id, "ann")
		for what, err := range map[string]error{"solve": err, "issue": issueErr, "picture": pictureErr, "sound": soundErr, "forget": i.Forget(gone, p)} {
			wantErr(t, what, err, captcha.ErrUnavailable)
			wantErr(t, what+", cause", err, context.Canceled)
		}
		_, err = i.Verify(token)
		must(t, err)
	})
}

func TestCaptcha_T14_NoErrorOrLogSaysTheAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		net := new(lossy)
		b.rdb.AddHook(net)
		i := b.issuer()
		id, answer := b.open(i, ann)
		key, _ := captcha.RecordKey(id)
		net.lose.Store(1)
		_, _, lost := i.Solve(ctx, id, "ann", answer)
		_, _, wrong := i.Solve(ctx, id, "ann", other(answer))
		said := b.log.String() + errors.Join(lost, wrong).Error() + id + key
		for _, k := range b.rdb.Keys(ctx, "*").Val() {
			said += k + strings.Join(b.rdb.HVals(ctx, k).Val(), " ")
		}
		if strings.Contains(said, answer) || strings.Contains(said, other(answer)) {
			t.Error("the answer is said somewhere after it was burned")
		}
	})
}
