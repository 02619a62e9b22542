package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"weir/internal/redisd"
)

// redisWait is the longest that start-up waits for a Redis to answer.
const redisWait = 3 * time.Second

// backing is the Redis that this process works with.
type backing struct {
	stock, shared redis.UniversalClient
	embedded      *redisd.Server // nil with an external one
	memory        bool           // miniredis: no INFO in scripts, nothing survives
	describe      string
}

// openRedis starts or reaches the Redis of c, and checks what stock needs.
func openRedis(ctx context.Context, c Config, s Secrets, log *slog.Logger) (*backing, error) {
	if c.Redis.Mode != "external" {
		return openEmbedded(ctx, c, log)
	}
	b := &backing{describe: "external, " + strings.Join(c.Redis.Stock.Addresses, ", ")}
	b.stock = newClient(c.Redis.Stock, s.StockPassword)
	b.shared = b.stock
	if c.Redis.Shared != nil {
		b.shared = newClient(*c.Redis.Shared, s.SharedPassword)
	}
	if err := answers(ctx, b.stock); err != nil {
		b.close(ctx)
		return nil, fmt.Errorf("redis.stock (%s): %w", strings.Join(c.Redis.Stock.Addresses, ", "), err)
	}
	if b.shared != b.stock {
		if err := answers(ctx, b.shared); err != nil {
			b.close(ctx)
			return nil, fmt.Errorf("redis.shared (%s): %w", strings.Join(c.Redis.Shared.Addresses, ", "), err)
		}
	}
	if err := b.checkStock(ctx, log); err != nil {
		b.close(ctx)
		return nil, err
	}
	return b, nil
}

func openEmbedded(ctx context.Context, c Config, log *slog.Logger) (*backing, error) {
	ids := make([]string, len(c.Sales))
	for i, s := range c.Sales {
		ids[i] = s.ID
	}
	server, err := redisd.Start(ctx, redisd.Options{Mode: c.Redis.Mode, Dir: c.Data, Stock: ids, Log: log})
	if err != nil {
		return nil, err
	}
	_, address, password := server.Network()
	// Of the settings only the time-outs and the pool are for our own Redis.
	own := c.Redis.Stock
	one := RedisServer{
		Addresses: []string{address}, Pool: own.Pool,
		DialTimeout: own.DialTimeout, ReadTimeout: own.ReadTimeout, WriteTimeout: own.WriteTimeout,
	}
	b := &backing{embedded: server, memory: server.Mode() == redisd.ModeMemory, describe: server.Describe()}
	b.stock = newClient(one, NewSecret(password))
	b.shared = b.stock
	if err := answers(ctx, b.stock); err != nil {
		b.close(ctx)
		return nil, fmt.Errorf("the embedded Redis in %s: %w", c.Data, err)
	}
	return b, nil
}

// newClient makes the client that stock and single-use answers need: it never
// repeats a command by itself and keeps to the deadline of its context.
func newClient(s RedisServer, password Secret) redis.UniversalClient {
	addresses := make([]string, len(s.Addresses))
	for i, a := range s.Addresses {
		addresses[i] = strings.TrimPrefix(a, "unix:")
	}
	o := &redis.UniversalOptions{
		Addrs: addresses, MasterName: s.Master, Username: s.Username, Password: string(password.Reveal()), DB: s.DB,
		DialTimeout: s.DialTimeout, ReadTimeout: s.ReadTimeout, WriteTimeout: s.WriteTimeout,
		PoolSize: s.Pool, PoolTimeout: s.ReadTimeout,
		MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewUniversalClient(o)
}

// answers waits for a PONG, within redisWait.
func answers(ctx context.Context, rdb redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		var reply redis.Error
		if errors.As(err, &reply) && !strings.HasPrefix(reply.Error(), "LOADING") {
			return fmt.Errorf("Redis refuses us: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("Redis does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// memoryModeSays is how miniredis refuses INFO server.
const memoryModeSays = "section (server) is not supported"

var (
	versionLine = regexp.MustCompile(`(?m)^redis_version:(\d+)\.(\S+)`)
	policyLine  = regexp.MustCompile(`(?m)^maxmemory_policy:(\S+)`)
)

// checkStock refuses a Redis that could lose stock by its settings: too old
// for the scripts, or free to evict keys.
func (b *backing) checkStock(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	info, err := b.stock.Info(ctx, "server").Result()
	if err != nil && strings.Contains(err.Error(), memoryModeSays) {
		b.memory = true
		b.describe += " (the memory mode of another weir: nothing survives a restart)"
		return nil
	}
	if err != nil || !strings.Contains(info, "run_id:") {
		return fmt.Errorf("redis.stock: INFO must be allowed, since stock is guarded by it: %w", cmp.Or(err, errors.New("no run_id in INFO server")))
	}
	if v := versionLine.FindStringSubmatch(info); v != nil {
		if major, _ := strconv.Atoi(v[1]); major < 7 {
			return fmt.Errorf("redis.stock: version %s.%s is too old, right is 7.0 or later", v[1], strings.TrimSpace(v[2]))
		}
	}
	memory, err := b.stock.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("redis.stock: reading its settings: %w", err)
	}
	if p := policyLine.FindStringSubmatch(memory); p != nil && strings.TrimSpace(p[1]) != "noeviction" {
		return fmt.Errorf("redis.stock: maxmemory-policy is %s, which may forget stock; right is: CONFIG SET maxmemory-policy noeviction", strings.TrimSpace(p[1]))
	}
	return b.checkPersistence(ctx, log)
}

// checkPersistence warns of a Redis that forgets all stock when it restarts. It
// may be one of many replicas with Sentinel, so it is not refused.
func (b *backing) checkPersistence(ctx context.Context, log *slog.Logger) error {
	info, err := b.stock.Info(ctx, "persistence").Result()
	if err != nil {
		return fmt.Errorf("redis.stock: reading its settings: %w", err)
	}
	if strings.Contains(info, "aof_enabled:0") {
		log.Warn("redis.stock has no append-only file: a restart of it may forget units that were sold; right is: CONFIG SET appendonly yes")
	}
	return nil
}

// failed yields an error when the embedded Redis is gone for good.
func (b *backing) failed() <-chan error {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.Failed()
}

func (b *backing) close(ctx context.Context) error {
	var faults []error
	if b.shared != b.stock {
		faults = append(faults, b.shared.Close())
	}
	faults = append(faults, b.stock.Close())
	if b.embedded != nil {
		faults = append(faults, b.embedded.Close(ctx))
	}
	return errors.Join(faults...)
}

// clientLog takes what go-redis would print by itself. Its errors reach us as
// errors, so these lines are only for debugging.
type clientLog struct{ log *slog.Logger }

// Printf implements go-redis's logger.
func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "said", fmt.Sprintf(format, v...))
}
