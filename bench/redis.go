package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisProcess is a redis-server on a unix socket in a folder of its own.
type redisProcess struct {
	client *redis.Client
	pid    int
	stop   func()
}

// durability is how the server keeps what it is told.
type durability struct {
	name string
	args []string
}

func durabilities() []durability {
	return []durability{
		{"appendonly no", []string{"--appendonly", "no"}},
		{"appendfsync always", []string{"--appendonly", "yes", "--appendfsync", "always"}},
	}
}

// startRedis starts the server and a client for so many callers, made like weir's own.
func startRedis(ctx context.Context, program string, d durability, callers int) (*redisProcess, error) {
	dir, err := os.MkdirTemp("", "weir-bench") // short, for a socket's path is bounded
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	args := append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--loglevel", "warning"}, d.args...)
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	client := redis.NewClient(benchOptions("unix", socket, callers))
	r := &redisProcess{client: client, pid: cmd.Process.Pid, stop: func() {
		client.Close()
		_ = cmd.Process.Kill() // its data is of no use to anybody
		_ = cmd.Wait()
		os.RemoveAll(dir)
	}}
	if err := r.await(ctx); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// benchOptions make a client like weir's own, with a connection for each caller.
func benchOptions(network, addr string, callers int) *redis.Options {
	return &redis.Options{
		Network: network, Addr: addr, PoolSize: callers, MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (r *redisProcess) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("redis-server does not answer"), err)
		case <-tick.C:
		}
	}
}
