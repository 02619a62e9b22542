package limiter

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/tasks"
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

	mu      sync.Mutex
	queue   []*question // not yet on their way
	running int         // pipelines
	flights tasks.Group // those that no caller waits in

	// grant replaces Redis in tests.
	grant func(ctx context.Context, layer, key string, q grantAsk) (granted int, wait time.Duration, err error)
}

// grantAsk asks for up to n events, and gives some of an earlier grant back; or
// tells, by a back below 0, of events that were spent unasked, the last of them so
// long ago.
type grantAsk struct {
	n, back int
	ago     time.Duration
	pol     *policy
}

// question is one script that waits for a pipeline, or is in one.
type question struct {
	key  string
	args []any
	cmd  *redis.Cmd
	done chan struct{}
}

const (
	maxPipelines = 2   // on their way at once
	maxQuestions = 128 // in one of them
)

// ask asks Redis, in one script. The answer is fewer than n when the limit has no
// more, and then how long until it has one. Questions that come while others are
// on their way travel together, one network trip for all of them.
func (c *Cluster) ask(ctx context.Context, layer, key string, q grantAsk) (granted int, wait time.Duration, err error) {
	if c.grant != nil {
		return c.grant(ctx, layer, key, q)
	}
	interval := 1e6 / float64(q.pol.limit) // µs
	x := &question{key: grantKey(layer, key), done: make(chan struct{}), args: []any{
		q.n, fmt.Sprintf("%.9f", interval), fmt.Sprintf("%.3f", q.pol.saved()*interval), q.back, q.ago.Microseconds(),
	}}
	c.mu.Lock()
	c.queue = append(c.queue, x)
	runs := c.running < maxPipelines
	if runs {
		c.running++
	}
	c.mu.Unlock()
	if runs {
		c.work()
	}
	select {
	case <-x.done:
	case <-ctx.Done(): // it may still be executed
		return 0, 0, ctx.Err()
	}
	return x.answer(q.n)
}

func (x *question) answer(n int) (granted int, wait time.Duration, err error) {
	reply, err := x.cmd.Int64Slice()
	switch {
	case err != nil:
		return 0, 0, err
	case len(reply) != 2 || reply[0] < 0 || reply[0] > int64(n) || reply[1] < 0:
		return 0, 0, fmt.Errorf("limiter: grant answered %v", reply)
	}
	return int(reply[0]), time.Duration(reply[1]) * time.Microsecond, nil
}

// work carries questions until none is left. Whoever asks first carries his own
// and hands the rest over, so that he does not serve others for ever.
func (c *Cluster) work() {
	c.mu.Lock()
	batch := c.queue[:min(len(c.queue), maxQuestions)]
	c.queue = c.queue[len(batch):]
	if len(batch) == 0 {
		c.running--
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.carry(batch)
	c.mu.Lock()
	more := len(c.queue) > 0
	if !more {
		c.queue = nil
		c.running--
	}
	c.mu.Unlock()
	if more {
		c.flights.Go(c.work)
	}
}

// carry runs one pipeline. A server that does not know the script gets its text.
func (c *Cluster) carry(batch []*question) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	c.send(ctx, batch, grantScript.EvalSha)
	var again []*question
	for _, x := range batch {
		if redis.HasErrorPrefix(x.cmd.Err(), "NOSCRIPT") {
			again = append(again, x)
		}
	}
	if len(again) > 0 {
		c.send(ctx, again, grantScript.Eval)
	}
	for _, x := range batch {
		close(x.done)
	}
}

func (c *Cluster) send(ctx context.Context, batch []*question, run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) {
	pipe := c.Redis.Pipeline()
	for _, x := range batch {
		x.cmd = run(ctx, pipe, []string{x.key}, x.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// tell logs that Redis is away, or back.
func (c *Cluster) tell(layer string, away bool, err error) {
	if away {
		c.Log.Warn("the Redis of the limits does not answer: each replica grants itself its part", "layer", layer, "error", err)
		return
	}
	c.Log.Info("the Redis of the limits answers again", "layer", layer)
}
