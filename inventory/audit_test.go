package inventory

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// restless has someone buy before each step of a walk.
type restless struct {
	redis.Hook
	buy func(n int)
	n   int
}

func (r *restless) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *restless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *restless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hscan" {
			r.n++
			r.buy(r.n)
		}
		return next(ctx, cmd)
	}
}

func TestAudit_ThatMetAChangeOnEveryWalkProvesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.openSale(t, 100, nil)
		auditor := v.replicaOf(t, "auditor", func(c *Config, _ *redis.Options) {})
		must(t, auditor.Refresh(t.Context()))
		busy := &restless{buy: func(n int) { v.won(t, sale, fmt.Sprint("u", n)) }}
		auditor.redis.AddHook(busy)
		a, err := auditor.Audit(t.Context(), sale.ID)
		if err != nil || a.OK || a.Proved || len(a.Differences) != 1 || busy.n < auditTries {
			t.Errorf("%+v after %d steps: %v", a, busy.n, err)
		}
		if a, err = v.store.Audit(t.Context(), sale.ID); err != nil || !a.OK || !a.Proved {
			t.Errorf("on a quiet stock: %+v %v", a, err)
		}
	})
}
