package inventory

import (
	"context"
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is one Lua file and its digest.
type script struct {
	name, src, sha string
}

// scripts are all scripts of the package; lua/<name>.lua says what each does.
type scripts struct {
	reserve, accept, confirm, release, expire, extend, stuck, find, sweep, lend, restore, audit, listed script
	level, write, void, shut, desire, rearm                                                             script
	begin, swap, retire, pointer /* meta_switch */, revoke, end, leaseTags, lease, beat                 script
}

func loadScripts() (*scripts, error) {
	common, err := luaFiles.ReadFile("lua/common.lua")
	if err != nil {
		return nil, fmt.Errorf("reading scripts: %w", err)
	}
	var sc scripts
	load := func(to *script, name string, head []byte) {
		body, e := luaFiles.ReadFile("lua/" + name + ".lua")
		if e != nil {
			err = fmt.Errorf("reading scripts: %w", e)
			return
		}
		src := string(head) + string(body)
		*to = script{name: name, src: src, sha: redis.NewScript(src).Hash()}
	}
	for name, to := range map[string]*script{
		"reserve": &sc.reserve, "accept": &sc.accept, "confirm": &sc.confirm, "release": &sc.release,
		"expire": &sc.expire, "extend": &sc.extend, "lend": &sc.lend, "restore": &sc.restore, "stuck": &sc.stuck, "find": &sc.find, "sweep": &sc.sweep, "audit": &sc.audit, "listed": &sc.listed, "bucket_write": &sc.write,
	} {
		load(to, name, common)
	}
	for name, to := range map[string]*script{
		"level": &sc.level, "bucket_void": &sc.void, "bucket_shut": &sc.shut, "meta_tags": &sc.leaseTags, "lease": &sc.lease, "beat": &sc.beat, "bucket_desire": &sc.desire, "bucket_rearm": &sc.rearm,
		"meta_begin": &sc.begin, "meta_swap": &sc.swap, "meta_retire": &sc.retire, "meta_switch": &sc.pointer, "meta_revoke": &sc.revoke,
		"meta_end": &sc.end,
	} {
		load(to, name, nil)
	}
	return &sc, err
}

// scriptCmd is a script call that the client never sends twice: a cluster
// client repeats commands whose reply was lost even with MaxRetries -1.
type scriptCmd struct{ *redis.Cmd }

func (scriptCmd) NoRetry() bool { return true }

// firstKey is where the keys of EVAL and EVALSHA begin.
const firstKey = 3

// run executes a script once. The error is ErrUnavailable when it was not
// executed for certain, ErrInvalidOrder when the script refused its arguments,
// and ErrOutcomeUnknown otherwise.
func (s *Store) run(ctx context.Context, sc *script, keys []string, args ...any) (any, error) {
	return s.runBy(ctx, s.redis, sc, keys, args)
}

// processor is what a command is sent by: a client or one connection of it.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

func (s *Store) runBy(ctx context.Context, by processor, sc *script, keys []string, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", sc.name, ErrUnavailable, err)
	}
	v, err := send(ctx, by, "evalsha", sc.sha, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // not executed: the server forgot it
		v, err = send(ctx, by, "eval", sc.src, keys, args)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sc.name, mapError(err))
	}
	return v, nil
}

func send(ctx context.Context, by processor, verb, what string, keys []string, args []any) (any, error) {
	all := make([]any, 0, firstKey+len(keys)+len(args))
	all = append(all, verb, what, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := scriptCmd{redis.NewCmd(ctx, append(all, args...)...)}
	cmd.SetFirstKeyPos(firstKey)
	_ = by.Process(ctx, cmd) // the same error is in cmd
	return cmd.Result()
}

// runInt runs a script that answers one integer.
func (s *Store) runInt(ctx context.Context, sc *script, keys []string, args ...any) (int64, error) {
	v, err := s.run(ctx, sc, keys, args...)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%s: %w: answered %T", sc.name, ErrOutcomeUnknown, v)
	}
	return n, nil
}
