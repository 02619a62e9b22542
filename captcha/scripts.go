package captcha

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/issue.lua
var issueLua string

//go:embed lua/sound.lua
var soundLua string

//go:embed lua/solve.lua
var solveLua string

//go:embed lua/forget.lua
var forgetLua string

// Scripts know their hash and nothing else.
var (
	issueScript  = redis.NewScript(issueLua)
	soundScript  = redis.NewScript(soundLua)
	solveScript  = redis.NewScript(solveLua)
	forgetScript = redis.NewScript(forgetLua)
)

// code is the first value of every script's answer.
type code int64

const (
	codeGone    code = 0 // no such challenge any more; also: too many issued
	codeDone    code = 1 // done; in solve: the right answer
	codeWrong   code = 2
	codeForeign code = 3
)

// run runs a script and returns its code and the values after it. An error is
// an ErrUnavailable that says what was being done.
func (i *Issuer) run(ctx context.Context, act string, script *redis.Script, keys []string, args ...any) (code, []any, error) {
	reply, err := script.Run(ctx, i.cfg.Redis, keys, args...).Slice()
	if err != nil {
		return 0, nil, unavailable(act, err)
	}
	if len(reply) == 0 {
		return 0, nil, unavailable(act, redis.Nil)
	}
	n, ok := reply[0].(int64)
	if !ok {
		return 0, nil, unavailable(act, fmt.Errorf("answer begins with %T", reply[0]))
	}
	return code(n), reply[1:], nil
}

func unavailable(act string, err error) error {
	return fmt.Errorf("%s: %w: %w", act, ErrUnavailable, err)
}

// str and num read a value of a script's answer; the zero value if it is not there.
func str(vals []any, n int) string {
	if n >= len(vals) {
		return ""
	}
	s, _ := vals[n].(string)
	return s
}

func num(vals []any, n int) int64 {
	if n >= len(vals) {
		return 0
	}
	v, _ := vals[n].(int64)
	return v
}
