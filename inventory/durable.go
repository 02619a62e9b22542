package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// runSafely runs a bucket script and, if so configured, waits until replicas
// have what it changed.
func (s *Store) runSafely(ctx context.Context, sc *script, keys []string, args []any) (any, error) {
	for try := 0; ; try++ {
		v, err := s.runOnce(ctx, sc, keys, args)
		if err == nil || try == maxMoves || !movesNow(err) {
			return v, err
		}
		// A slot is moving to another master; the script was not executed.
		if cluster, ok := s.redis.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(10<<try) * time.Millisecond):
		}
	}
}

// maxMoves bounds how often a script is sent again while its slot moves: 630 ms
// in all.
const maxMoves = 6

// movesNow: the slot's keys are between two masters.
func movesNow(err error) bool {
	for _, prefix := range []string{"TRYAGAIN", "ASK ", "MOVED "} {
		var reply redis.Error
		if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), prefix) {
			return true
		}
	}
	return false
}

func (s *Store) runOnce(ctx context.Context, sc *script, keys []string, args []any) (any, error) {
	if s.wait.Replicas == 0 {
		return s.run(ctx, sc, keys, args...)
	}
	node, err := s.master(ctx, keys[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", sc.name, ErrUnavailable, err)
	}
	v, err := s.runAndWait(ctx, node, false, sc, keys, args)
	if to := s.askedTo(ctx, err); to != nil {
		return s.runAndWait(ctx, to, true, sc, keys, args)
	}
	return v, err
}

// runAndWait runs a script on one server, and waits on the same connection:
// WAIT speaks of the writes of its own one.
func (s *Store) runAndWait(ctx context.Context, node *redis.Client, ask bool, sc *script, keys []string, args []any) (any, error) {
	conn := node.Conn()
	defer conn.Close()
	var by processor = conn
	if ask {
		by = asking{conn}
	}
	v, err := s.runBy(ctx, by, sc, keys, args)
	if err != nil {
		return nil, err
	}
	n, err := conn.Wait(ctx, s.wait.Replicas, s.wait.Timeout).Result()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: waiting for replicas: %w: %w", sc.name, ErrOutcomeUnknown, err)
	case n < int64(s.wait.Replicas):
		return nil, fmt.Errorf("%s: %w: %d of %d replicas confirmed it within %v", sc.name, ErrOutcomeUnknown, n, s.wait.Replicas, s.wait.Timeout)
	}
	return v, nil
}

// asking sends ASKING before each command, which holds for one: the slot is
// still on its way to that server.
type asking struct{ conn *redis.Conn }

func (a asking) Process(ctx context.Context, cmd redis.Cmder) error {
	pipe := a.conn.Pipeline()
	pipe.Do(ctx, "ASKING")
	_ = pipe.Process(ctx, cmd) // only puts it in line
	_, _ = pipe.Exec(ctx)
	return cmd.Err()
}

// askedTo is the master that an ASK names; nil when it is none or unknown. A
// client's connection to one server follows nothing by itself.
func (s *Store) askedTo(ctx context.Context, err error) (to *redis.Client) {
	var reply redis.Error
	cluster, ok := s.redis.(*redis.ClusterClient)
	if !ok || !errors.As(err, &reply) {
		return nil
	}
	f := strings.Fields(reply.Error())
	if len(f) != 3 || f[0] != "ASK" {
		return nil
	}
	var mu sync.Mutex
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if node.Options().Addr == f[2] {
			to = node
		}
		return nil
	})
	return to
}

// master is the client of the server that has a key.
func (s *Store) master(ctx context.Context, key string) (*redis.Client, error) {
	switch c := s.redis.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Client:
		return c, nil
	}
	return nil, fmt.Errorf("no WAIT on a client of type %T", s.redis)
}
