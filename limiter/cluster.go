package limiter

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/grant.lua
var grantLua string

var grantScript = redis.NewScript(grantLua)

// Cluster is what replicas share: their cluster-wide rates stand in one Redis.
type Cluster struct {
	// Redis judges by its own clock, so that the replicas' clocks do not matter.
	Redis redis.UniversalClient
	// Replicas is how many replicas were alive when Redis was last heard of. While
	// it is away each grants itself that part of a rate.
	Replicas func() int
	Log      *slog.Logger
	// grant replaces Redis in tests.
	grant func(ctx context.Context, layer, key string, q grantAsk) (granted int, wait time.Duration, err error)
}

// grantAsk asks for up to n events, and gives some of an earlier grant back.
type grantAsk struct {
	n, back int
	pol     *policy
}

// ask asks Redis, in one script. The answer is fewer than n when the limit
// has no more, and then how long until it has one.
func (c *Cluster) ask(ctx context.Context, layer, key string, q grantAsk) (granted int, wait time.Duration, err error) {
	if c.grant != nil {
		return c.grant(ctx, layer, key, q)
	}
	interval := 1e6 / float64(q.pol.limit) // µs
	reply, err := grantScript.Run(ctx, c.Redis, []string{grantKey(layer, key)},
		q.n, fmt.Sprintf("%.9f", interval), fmt.Sprintf("%.3f", q.pol.saved()*interval), q.back).Int64Slice()
	switch {
	case err != nil:
		return 0, 0, err
	case len(reply) != 2 || reply[0] < 0 || reply[0] > int64(q.n) || reply[1] < 0:
		return 0, 0, fmt.Errorf("limiter: grant answered %v", reply)
	}
	return int(reply[0]), time.Duration(reply[1]) * time.Microsecond, nil
}

// tell logs that Redis is away, or back.
func (c *Cluster) tell(layer string, away bool, err error) {
	if away {
		c.Log.Warn("the Redis of the limits does not answer: each replica grants itself its part", "layer", layer, "error", err)
		return
	}
	c.Log.Info("the Redis of the limits answers again", "layer", layer)
}
