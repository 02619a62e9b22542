package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// memoryModeSays is how miniredis refuses INFO server.
const memoryModeSays = "section (server) is not supported"

// checkStock refuses a Redis that could lose stock by its settings: too old
// for the scripts, free to evict keys, a cluster that is not whole, or a master
// that goes on alone when its replicas are cut off. Each refusal says what to set.
func (b *backing) checkStock(ctx context.Context, c StockConfig, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	cluster, ok := b.stock.(*redis.ClusterClient)
	if !ok {
		// Such a client does not follow MOVED.
		if info, err := b.stock.Info(ctx, "server").Result(); err == nil && infoField(info, "redis_mode") == "cluster" {
			return errors.New("redis.stock.addresses: this server belongs to a Cluster, right is two or more of its nodes")
		}
		return b.checkServer(ctx, b.stock, c, log)
	}
	state, err := cluster.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("redis.stock: reading the state of the cluster: %w", err)
	}
	if v := infoField(state, "cluster_state"); v != "ok" {
		return fmt.Errorf("redis.stock: the cluster's state is %q, right is ok; what is wrong says: redis-cli --cluster check", v)
	}
	var mu sync.Mutex // the masters are asked at the same time
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if err := b.checkServer(ctx, master, c, log.With("node", master.Options().Addr)); err != nil {
			return fmt.Errorf("%w (at %s)", err, master.Options().Addr)
		}
		return nil
	})
}

// infoReader is one server.
type infoReader interface {
	Info(ctx context.Context, section ...string) *redis.StringCmd
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
}

func (b *backing) checkServer(ctx context.Context, at infoReader, c StockConfig, log *slog.Logger) error {
	info, err := at.Info(ctx, "server").Result()
	if err != nil && strings.Contains(err.Error(), memoryModeSays) {
		b.memory = true
		b.describe += " (the memory mode of another weir: nothing survives a restart)"
		return nil
	}
	if err != nil || infoField(info, "run_id") == "" {
		return fmt.Errorf("redis.stock: INFO must be allowed, since stock is guarded by it: %w", cmp.Or(err, errors.New("no run_id in INFO server")))
	}
	version := infoField(info, "redis_version")
	switch major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0]); {
	case err != nil:
		return fmt.Errorf("redis.stock: version %q cannot be read, right is 7.0 or later", version)
	case major < 7:
		return fmt.Errorf("redis.stock: version %s is too old, right is 7.0 or later", version)
	}
	if info, err = readInfo(ctx, at, "memory"); err != nil {
		return err
	}
	if p := infoField(info, "maxmemory_policy"); p != "noeviction" && p != "" {
		return fmt.Errorf("redis.stock: maxmemory-policy is %s, which may forget stock; right is: CONFIG SET maxmemory-policy noeviction", p)
	}
	if info, err = readInfo(ctx, at, "persistence"); err != nil {
		return err
	}
	// It may be one of many replicas with Sentinel, so this is not refused.
	if infoField(info, "aof_enabled") == "0" {
		log.Warn("redis.stock has no append-only file: a restart of it may forget units that were sold; right is: CONFIG SET appendonly yes")
	}
	return checkReplicas(ctx, at, c, log)
}

// mostLag is the longest that a replica may lag behind and still count, seconds.
const mostLag = 10

// checkReplicas: where there are replicas, a master that lost sight of them
// must stop, or what it sells meanwhile is forgotten by the failover.
func checkReplicas(ctx context.Context, at infoReader, c StockConfig, log *slog.Logger) error {
	info, err := readInfo(ctx, at, "replication")
	if err != nil {
		return err
	}
	if role := infoField(info, "role"); role != "master" {
		return fmt.Errorf("redis.stock: this server is a %s, right is its master %s:%s, or Sentinels with redis.stock.master",
			role, infoField(info, "master_host"), infoField(info, "master_port"))
	}
	replicas, _ := strconv.Atoi(infoField(info, "connected_slaves"))
	if replicas < c.WaitReplicas {
		return fmt.Errorf("redis.stock: it has %s, and stock.wait_replicas (%d) asks for more; nobody could win", counted(replicas, "replica"), c.WaitReplicas)
	}
	if replicas == 0 {
		return nil
	}
	for name, wrong := range map[string]func(n int) bool{
		"min-replicas-to-write": func(n int) bool { return n < 1 },
		"min-replicas-max-lag":  func(n int) bool { return n < 1 || n > mostLag },
	} {
		set, err := at.ConfigGet(ctx, name).Result()
		if err != nil {
			log.Warn("redis.stock: CONFIG GET is not allowed, so that nobody can see whether min-replicas-to-write is 1 or more", "err", err)
			return nil
		}
		if n, err := strconv.Atoi(set[name]); err == nil && wrong(n) {
			return fmt.Errorf("redis.stock: it has replicas and %s is %d, so it would go on selling without them, and a failover forget that; right is: CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag %d (or less)", name, n, mostLag)
		}
	}
	return nil
}

func readInfo(ctx context.Context, at infoReader, section string) (string, error) {
	info, err := at.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("redis.stock: reading its settings: %w", err)
	}
	return info, nil
}

// infoField is one line of an INFO text.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
