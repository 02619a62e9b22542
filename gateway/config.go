package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/blacklist"
	"weir/captcha"
	"weir/inventory"
	"weir/limiter"
)

// Config is what the operator decides about the public side. It is plain
// values: cmd/weir reads them from the file.
type Config struct {
	// Prefix of weir's own paths, such as "/_weir"; no route may live under it.
	Prefix string
	// PublicURL is the scheme and host that buyers see. It decides the Origin
	// check and whether cookies are Secure; nil takes both from the request.
	PublicURL *url.URL
	// TrustedProxies may speak for their clients (X-Forwarded-For, the user
	// and device headers). Everybody else's such headers are ignored.
	TrustedProxies []netip.Prefix
	Server         ServerConfig
	Routes         []RouteConfig
	Identity       IdentityConfig
	Limits         Limits
	Upstream       UpstreamConfig
	Judge          JudgeConfig
	PassTTL        time.Duration // how long a pass cookie lives in the browser
	// SignIn is the shop's page where visitors sign in; {page} in it becomes the
	// escaped path to come back to. "" names none.
	SignIn string
	Items  map[string]string
	Keys   Keys
	// RefusalsPerSecond bounds the log lines about refused requests; a line
	// for each would be a second flood.
	RefusalsPerSecond int
}

// ServerConfig bounds what one connection may cost.
type ServerConfig struct {
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	HeaderLimit, BodyLimit                 int // bytes
	MaxConnections, MaxPerAddress          int
	Drain                                  time.Duration // longest wait for running requests at stop
}

// Keys are derived from the master secret, one per use.
type Keys struct {
	Order  []byte // makes order ids from an Idempotency-Key
	Device []byte // signs the device cookie
	Shop   []byte // signs what the shop receives
}

// Limits are the layers, narrow before broad. A zero layer is off.
type Limits struct {
	User, Device, Address, Network limiter.Layer // own: who asks
	Pass                           limiter.Layer // own: the pass he asks with
	Signature                      limiter.Layer // an address with an unknown token
	Challenge                      limiter.Layer // drawing pictures for one user
	Item, Route, Upstream, Cluster limiter.Layer // shared
}

// Deps are the parts the gateway works with.
type Deps struct {
	Stock   *inventory.Store
	Captcha *captcha.Issuer
	Bans    *blacklist.List
	// Limits is where replicas share the rates of layers with limiter.ScopeCluster;
	// nil: no layer may have it.
	Limits  *limiter.Cluster
	Now     func() time.Time // Redis time
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

func (c Config) validate() error {
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	need(len(c.Prefix) > 1 && c.Prefix[0] == '/', "prefix %q: must start with / and name a folder", c.Prefix)
	need(len(c.Keys.Order) >= 32, "order key: at least 32 bytes")
	need(len(c.Keys.Device) >= 32, "device key: at least 32 bytes")
	need(len(c.Keys.Shop) >= 32, "shop key: at least 32 bytes")
	need(c.Upstream.URL != nil, "upstream: no URL")
	need(c.Upstream.Timeout > 0, "upstream.timeout %v: must be above zero", c.Upstream.Timeout)
	need(c.Server.BodyLimit > 0, "body_limit %d: must be above zero", c.Server.BodyLimit)
	return errors.Join(faults...)
}
