package captcha

import (
	"context"
	"time"
)

// Solve answers a challenge of user and burns it, right or wrong, in one script.
// The right answer gives a pass and its token; while an earlier pass of the user
// for that sale lives, it is that one (same order id) with a fresh expiry.
//
// The same answer, repeated within 10 s, is told the same verdict with the same
// pass: replies get lost. So of any number of right answers in parallel each is
// accepted and there is one order id. Another answer to a burned challenge is
// ErrExpired. Errors: ErrWrong, ErrExpired, ErrUnknown, and ErrUnavailable, after
// which the same call may be repeated.
//
// Beside ErrWrong and ErrForeign, p says only user, sale and item of the burned
// challenge, so that a fresh one can be issued; it has no order id and no token.
//
// The device of the binding is not compared here; SolveFor does.
func (i *Issuer) Solve(ctx context.Context, id, user, answer string) (token string, p Pass, err error) {
	return i.solve(ctx, id, Binding{User: user}, answer, false)
}

// SolveFor is Solve for a caller who knows more than the user: the device must be
// the one the challenge was made for ("" was made for none), and sale and item
// too unless they are "". If not, a right answer is ErrForeign and the challenge
// is burned.
func (i *Issuer) SolveFor(ctx context.Context, id string, by Binding, answer string) (token string, p Pass, err error) {
	return i.solve(ctx, id, by, answer, true)
}

func (i *Issuer) solve(ctx context.Context, id string, by Binding, answer string, device bool) (string, Pass, error) {
	tag, err := i.open(id, by.User)
	if err != nil {
		return "", Pass{}, err
	}
	answer = normalise(answer)
	dev, compare := i.device(by.Device), "0"
	if device {
		compare = "1"
	}
	code, vals, err := i.run(ctx, "solving challenge", solveScript,
		[]string{recordKey(tag, id), verdictKey(tag, id), liveKey(tag), passesKey(tag)},
		id, i.proof(id, answer), i.text("ask", id, answer, by.Sale, by.Item, dev, compare),
		by.Sale, by.Item, dev, compare, i.cfg.PassTTL.Milliseconds(), verdictTTL.Milliseconds())
	if err != nil {
		return "", Pass{}, err
	}
	p := Pass{Sale: str(vals, 1), Item: str(vals, 2), User: by.User}
	switch code {
	case codeDone:
		p.OrderID, p.Expires = str(vals, 0), time.UnixMilli(num(vals, 3))
		p.KeyID, p.Policy = i.cfg.KeyID, i.cfg.Policy
		return i.sign(p), p, nil
	case codeWrong:
		return "", p, ErrWrong
	case codeForeign:
		return "", p, ErrForeign
	default:
		return "", Pass{}, ErrExpired
	}
}

// Forget ends a pass that is spent, so that the user's next solve for the sale
// gets a new order id. It does nothing if his live pass is another one by then.
// Asking twice is harmless. The token itself stays genuine until it expires: that
// its order id is spent, the ledger knows. Errors: ErrUnavailable.
func (i *Issuer) Forget(ctx context.Context, p Pass) error {
	_, _, err := i.run(ctx, "forgetting pass", forgetScript, []string{passesKey(i.userTag(p.User))}, p.Sale, p.OrderID)
	return err
}
