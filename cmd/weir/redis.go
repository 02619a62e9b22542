package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	var err error
	if b.stock, err = newClient(c.Redis.Stock, s.StockPassword); err != nil {
		return nil, fmt.Errorf("redis.stock.%w", err)
	}
	b.shared = b.stock
	if c.Redis.Shared != nil {
		if b.shared, err = newClient(*c.Redis.Shared, s.SharedPassword); err != nil {
			return nil, errors.Join(fmt.Errorf("redis.shared.%w", err), b.stock.Close())
		}
	}
	if err := answers(ctx, b.stock); err != nil {
		b.close(ctx)
		return nil, notAnswered("redis.stock", "WEIR_REDIS_PASSWORD", c.Redis.Stock, err)
	}
	if b.shared != b.stock {
		if err := answers(ctx, b.shared); err != nil {
			b.close(ctx)
			return nil, notAnswered("redis.shared", "WEIR_REDIS_SHARED_PASSWORD", *c.Redis.Shared, err)
		}
	}
	if err := b.checkStock(ctx, c.Stock, log); err != nil {
		b.close(ctx)
		return nil, err
	}
	return b, nil
}

// notAnswered says why a server is not worked with, and what to set.
func notAnswered(section, env string, s RedisServer, err error) error {
	hint := ""
	switch text := err.Error(); {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"):
		hint = fmt.Sprintf("; right is its password in %s.password_file or %s, and the user, if it has one, in %s.username", section, env, section)
	case strings.Contains(text, "NOPERM"):
		hint = fmt.Sprintf("; right are the rights that config.yaml names at %s.username", section)
	case strings.Contains(text, "cluster support disabled"), strings.Contains(text, "cluster has no nodes"):
		hint = fmt.Sprintf("; several addresses without a master's name are nodes of a Cluster, right is one address, or Sentinels with %s.master", section)
	}
	return fmt.Errorf("%s (%s): %w%s", section, strings.Join(s.Addresses, ", "), err, hint)
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
	if b.stock, err = newClient(one, NewSecret(password)); err != nil {
		return nil, errors.Join(err, server.Close(ctx))
	}
	b.shared = b.stock
	if err := answers(ctx, b.stock); err != nil {
		b.close(ctx)
		return nil, fmt.Errorf("the embedded Redis in %s: %w", c.Data, err)
	}
	return b, nil
}

// newClient makes the client that stock and single-use answers need: it never
// repeats a command by itself and keeps to the deadline of its context.
func newClient(s RedisServer, password Secret) (redis.UniversalClient, error) {
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
		roots, err := trusted(s.CAFile)
		if err != nil {
			return nil, err
		}
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	return redis.NewUniversalClient(o), nil
}

// trusted are the authorities of a PEM file; nil means those of this host.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form", file)
	}
	return pool, nil
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
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) { // waiting does not mend that
			return fmt.Errorf("its certificate is not trusted, right is the authority that signed it, in ca_file: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("Redis does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
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
