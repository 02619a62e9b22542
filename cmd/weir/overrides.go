package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

const defaultConfigFile = "config.yaml"

// overrides are the flags that win over the file.
type overrides struct {
	config, listen, admin, data, redis, upstream string
}

func (o *overrides) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", defaultConfigFile, "configuration `file`; without one, built-in defaults")
	f.StringVar(&o.listen, "listen", "", "public `address`, e.g. :8081 (listen.address)")
	f.StringVar(&o.admin, "admin", "", "private `address`, e.g. 127.0.0.1:9091 (admin.address)")
	f.StringVar(&o.data, "data", "", "`folder` of the embedded Redis (data)")
	f.StringVar(&o.redis, "redis", "", "external Redis: host:port, unix:/path, redis:// or rediss:// `address`, several with commas for a cluster")
	f.StringVar(&o.upstream, "upstream", "", "the shop's `url`, or sample (upstream.url)")
}

// commandLine stands for the file in faults of flags.
const commandLine = "command line"

// apply puts the flags into c and gives the key paths they set.
func (o overrides) apply(c *Config) (places, error) {
	set := places{}
	for _, f := range []struct {
		path, value string
		field       *string
	}{
		{"listen.address", o.listen, &c.Listen.Address},
		{"admin.address", o.admin, &c.Admin.Address},
		{"data", o.data, &c.Data},
		{"upstream.url", o.upstream, &c.Upstream.URL},
	} {
		if f.value != "" {
			*f.field, set[f.path] = f.value, 1
		}
	}
	if o.redis == "" {
		return set, nil
	}
	set["redis"] = 1
	return set, applyRedis(&c.Redis, o.redis)
}

// applyRedis reads --redis. Users, passwords and timeouts stay those of the file.
func applyRedis(r *RedisConfig, flag string) error {
	var addresses []string
	for a := range strings.SplitSeq(flag, ",") {
		a = strings.TrimSpace(a)
		if strings.HasPrefix(a, "redis://") || strings.HasPrefix(a, "rediss://") {
			u, err := url.Parse(a)
			if err != nil || u.Host == "" || strings.Trim(u.Path, "/0") != "" || u.RawQuery != "" {
				return usagef("--redis: that is no redis://host:port")
			}
			if u.User != nil {
				return usagef("--redis: a user or password does not belong on the command line, where every user of this host reads it; right is redis.stock.username and WEIR_REDIS_PASSWORD")
			}
			r.Stock.TLS = u.Scheme == "rediss"
			a = u.Host
			if u.Port() == "" {
				a += ":6379"
			}
		}
		addresses = append(addresses, a)
	}
	r.Mode, r.Stock.Addresses, r.Shared = "external", addresses, nil
	return nil
}

// configured loads the file, applies the flags and reads the secrets. named says
// that the file was asked for, so it must exist. The error holds every fault.
func (a *app) configured(o overrides, named bool) (Config, Secrets, error) {
	src, err := readConfig(o.config, named)
	if err != nil {
		return Config{}, Secrets{}, err
	}
	file := o.config
	if src == nil {
		file = "built-in defaults"
	}
	c, where, faults := load(file, src)
	set, err := o.apply(&c)
	if err != nil {
		return c, Secrets{}, err
	}
	if _, ok := where["sales"]; !ok && !c.Upstream.Sample() {
		c.Sales = []SaleConfig{} // as in fill, for --upstream
	}
	faults = append(faults, c.again(set, where, file, faults)...)
	secrets, err := c.Secrets(a.env)
	var missing Faults
	if errors.As(err, &missing) {
		for _, f := range missing {
			f.File, f.Line = file, where.line(f.Path)
			faults = append(faults, f)
		}
	} else if err != nil {
		return c, secrets, err
	}
	faults.sort()
	return c, secrets, faults.err()
}

// readConfig reads the file, or gives nil when it was not asked for and is not there.
func readConfig(path string, named bool) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, bare(err))
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, bare(err))
	}
	return append([]byte{}, src...), nil
}

// again validates after the flags and keeps the faults that are new.
func (c Config) again(set, where places, file string, known Faults) Faults {
	if len(set) == 0 {
		return nil
	}
	var fresh Faults
	for _, f := range c.Validate() {
		if known.covers(f.Path) {
			continue
		}
		f.File, f.Line = file, where.line(f.Path)
		if set.line(f.Path) > 0 {
			f.File, f.Line = commandLine, 0
		}
		fresh = append(fresh, f)
	}
	return fresh
}
