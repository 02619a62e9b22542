package inventory

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// scriptNames is every file under lua/ by its digest.
func scriptNames(t testing.TB) map[string]string {
	t.Helper()
	files, err := luaFiles.ReadDir("lua")
	must(t, err)
	common, err := luaFiles.ReadFile("lua/common.lua")
	must(t, err)
	names := map[string]string{}
	for _, f := range files {
		if f.Name() == "common.lua" {
			continue
		}
		body, err := luaFiles.ReadFile("lua/" + f.Name())
		must(t, err)
		name := strings.TrimSuffix(f.Name(), path.Ext(f.Name()))
		names[redis.NewScript(string(body)).Hash()] = name
		names[redis.NewScript(string(common)+string(body)).Hash()] = name
	}
	return names
}

// scriptLog is a hook that notes which scripts ran.
type scriptLog struct {
	names map[string]string
	mu    sync.Mutex
	ran   map[string]bool
}

func newScriptLog(t testing.TB) *scriptLog {
	return &scriptLog{names: scriptNames(t), ran: map[string]bool{}}
}

func (l *scriptLog) note(cmds ...redis.Cmder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range cmds {
		if len(cmd.Args()) < 2 || cmd.Err() != nil {
			continue
		}
		what := fmt.Sprint(cmd.Args()[1])
		switch strings.ToLower(cmd.Name()) {
		case "eval":
			what = redis.NewScript(what).Hash()
		case "evalsha":
		default:
			continue
		}
		l.ran[l.names[what]] = true
	}
}

func (l *scriptLog) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *scriptLog) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		l.note(cmd)
		return err
	}
}

func (l *scriptLog) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		l.note(cmds...)
		return err
	}
}
