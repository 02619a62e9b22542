package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"time"

	"weir/captcha"
	"weir/gateway"
	"weir/internal/sampleshop"
	"weir/inventory"
	"weir/limiter"
)

// Labels of the keys that are derived from the master secret.
const (
	labelPass       = "pass"
	labelChallenge  = "challenge"
	labelShop       = "shop"
	labelOrder      = "order"
	labelDevice     = "device"
	labelSession    = "sample-session"
	labelFirstToken = "sample-admin"
)

// makeSecrets completes what a first look may go without: with the sample shop
// the master secret and the admin token make themselves, once for all replicas
// on this Redis. With another shop Secrets has refused to go on without.
func (p *program) makeSecrets(ctx context.Context) error {
	p.master = p.secrets.Master.Reveal()
	if !p.cfg.Upstream.Sample() {
		return nil
	}
	if len(p.master) == 0 {
		ctx, cancel := context.WithTimeout(ctx, redisWait)
		defer cancel()
		made, err := sampleshop.SharedSecret(ctx, p.redis.shared)
		if err != nil {
			return err
		}
		p.master = made
	}
	if len(p.secrets.AdminTokens) == 0 {
		p.madeToken = hex.EncodeToString(deriveKey(p.master, labelFirstToken)[:16])
	}
	return nil
}

func (p *program) captchaConfig() captcha.Config {
	c := p.cfg.Captcha
	return captcha.Config{
		Redis: p.redis.shared, Now: p.clock.Now, Log: p.log,
		ChallengeKey: deriveKey(p.master, labelChallenge), PassKey: deriveKey(p.master, labelPass),
		KeyID: p.cfg.Upstream.KeyID, Policy: 1,
		TTL: c.TTL, SoundTTL: c.SoundTTL, PassTTL: c.PassTTL,
		Digits: c.Digits, Width: c.Width, Height: c.Height, MaxLive: c.MaxLive,
		NewOrderID: inventory.NewOrderID,
	}
}

// makeShop starts the sample shop on a loopback port when no other is named. It
// answers at once: a preheat may ask it for a quota.
func (p *program) makeShop(context.Context) (err error) {
	if !p.cfg.Upstream.Sample() {
		return nil
	}
	items := make([]sampleshop.Item, len(p.cfg.Sales))
	for i, s := range p.cfg.Sales {
		items[i] = sampleshop.Item{ID: s.Item, Name: itemName(s), Price: "€ 9.00", Sale: s.ID, Text: "A sample item. Buying it costs nothing and sends nothing."}
	}
	p.shop, err = sampleshop.New(sampleshop.Options{
		Redis: p.redis.shared, SigningKey: deriveKey(p.master, labelShop), KeyID: p.cfg.Upstream.KeyID,
		SessionKey: p.sessionKey(), Items: items, Prefix: p.cfg.Listen.Prefix, Now: p.clock.Now, Log: p.log,
	})
	if err != nil {
		return err
	}
	if p.shopListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("the sample shop's port: %w", bare(err))
	}
	p.serveShop = begin(func(ctx context.Context) error { return p.shop.Serve(ctx, p.shopListener) })
	return nil
}

// makeQuota is what freezes the shop's product stock for sales, nil without it.
func (p *program) makeQuota() (inventory.Quota, error) {
	if p.cfg.Upstream.Quota == "" {
		return nil, nil
	}
	shop, err := p.shopURL()
	if err != nil {
		return nil, err
	}
	return gateway.NewShopQuota(upstreamConfig(p.cfg.Upstream, shop), deriveKey(p.master, labelShop), p.clock.Now), nil
}

func itemName(s SaleConfig) string {
	if s.Name != "" {
		return s.Name
	}
	return s.Item
}

// sessionKey verifies visitors' tokens: the operator's, or the sample shop's own.
func (p *program) sessionKey() []byte {
	if p.secrets.JWT.Set() || !p.cfg.Upstream.Sample() {
		return p.secrets.JWT.Reveal()
	}
	return deriveKey(p.master, labelSession)
}

func (p *program) gatewayConfig() (gateway.Config, error) {
	c := p.cfg
	shop, err := p.shopURL()
	if err != nil {
		return gateway.Config{}, err
	}
	var public *url.URL
	if c.Listen.PublicURL != "" {
		if public, err = url.Parse(c.Listen.PublicURL); err != nil {
			return gateway.Config{}, fmt.Errorf("listen.public_url: %w", err)
		}
	}
	proxies, err := prefixes(c.Listen.TrustedProxies)
	if err != nil {
		return gateway.Config{}, err
	}
	names := make(map[string]string, len(c.Sales))
	for _, s := range c.Sales {
		names[s.Item] = itemName(s)
	}
	return gateway.Config{
		Prefix: c.Listen.Prefix, PublicURL: public, TrustedProxies: proxies,
		Server: serverConfig(c.Listen), Routes: routeConfigs(c.Routes), Identity: p.identityConfig(),
		Limits: limitConfigs(c.Limits), Upstream: upstreamConfig(c.Upstream, shop),
		Judge:  gateway.JudgeConfig(c.Judge),
		SignIn: c.Identity.SignIn, PassTTL: c.Captcha.PassTTL, Items: names, RefusalsPerSecond: c.Log.RefusalsPerSecond,
		Keys: gateway.Keys{Order: deriveKey(p.master, labelOrder), Device: deriveKey(p.master, labelDevice), Shop: deriveKey(p.master, labelShop)},
	}, nil
}

func (p *program) shopURL() (*url.URL, error) {
	if p.shop != nil {
		return &url.URL{Scheme: "http", Host: p.shopListener.Addr().String()}, nil
	}
	u, err := url.Parse(p.cfg.Upstream.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream.url: %w", err)
	}
	return u, nil
}

func (p *program) identityConfig() gateway.IdentityConfig {
	c := p.cfg.Identity
	keys := make([]any, len(p.secrets.JWTKeys))
	for i, k := range p.secrets.JWTKeys {
		keys[i] = any(k)
	}
	return gateway.IdentityConfig{
		Header: c.Header,
		Cookie: gateway.CookieIdentity{Name: c.Cookie.Name, Secret: p.secrets.Cookie.Reveal()},
		JWT: gateway.JWTIdentity{
			Cookie: c.JWT.Cookie, Header: c.JWT.Header, Algorithms: c.JWT.Algorithms, Secret: p.sessionKey(), PublicKeys: keys,
			Issuer: c.JWT.Issuer, Audience: c.JWT.Audience, Claim: c.JWT.Claim, Leeway: c.JWT.Leeway,
		},
		DeviceHeader: c.Device.Header, DeviceCookie: c.Device.Cookie, Cache: c.Cache,
	}
}

func serverConfig(l ListenConfig) gateway.ServerConfig {
	return gateway.ServerConfig{
		ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: l.IdleTimeout,
		HeaderLimit: int(l.HeaderLimit), BodyLimit: int(l.BodyLimit),
		MaxConnections: l.MaxConnections, MaxPerAddress: l.MaxConnectionsPerAddress, Drain: l.Drain,
	}
}

func routeConfigs(rows []RouteConfig) []gateway.RouteConfig {
	out := make([]gateway.RouteConfig, len(rows))
	for i, r := range rows {
		out[i] = gateway.RouteConfig{
			Name: r.Name, Methods: r.Methods, Path: r.Path, Kind: gateway.RouteKind(r.Kind),
			Captcha: r.Captcha, Auth: r.Auth == "required", BodyLimit: int(r.BodyLimit),
		}
	}
	return out
}

func upstreamConfig(u UpstreamConfig, shop *url.URL) gateway.UpstreamConfig {
	return gateway.UpstreamConfig{
		URL: shop, Timeout: u.Timeout, ConnectTimeout: u.ConnectTimeout, IdleTimeout: u.IdleTimeout,
		MaxConnections: u.MaxConnections, ResponseLimit: int(u.ResponseLimit),
		ReleaseStatuses: u.ReleaseStatuses, Lookup: u.Lookup, Orders: u.Orders, Quota: u.Quota, OrderPage: u.OrderPage, KeyID: u.KeyID,
	}
}

func limitConfigs(l LimitsConfig) gateway.Limits {
	limits := gateway.Limits{
		User: ownLayer(l.User), Device: ownLayer(l.Device), Address: ownLayer(l.Address), Network: ownLayer(l.Network),
		Pass: ownLayer(l.Pass), Signature: ownLayer(l.Signature), Challenge: ownLayer(l.Challenge),
		Item: sharedLayer(l.Item), Route: sharedLayer(l.Route), Upstream: sharedLayer(l.Upstream), Cluster: sharedLayer(l.Cluster),
	}
	layers := map[string]*limiter.Layer{
		"user": &limits.User, "device": &limits.Device, "address": &limits.Address, "network": &limits.Network,
		"signature": &limits.Signature, "challenge": &limits.Challenge, "item": &limits.Item, "route": &limits.Route,
	}
	for _, x := range l.Except {
		layer, key := layers[x.Layer], ""
		if layer != nil {
			key, _ = gateway.LimitKey(x.Layer, x.Key) // checked, see checker.exceptions
		}
		if key == "" {
			continue
		}
		if layer.Except == nil {
			layer.Except = map[string]limiter.Numbers{}
		}
		layer.Except[key] = limiter.Numbers{Rate: x.Rate, Burst: x.Burst, Concurrency: x.Concurrency, Off: x.Mode == "off"}
	}
	return limits
}

// quietEvents is how many events' time a caller rests before he may ask once
// without Redis: 10 s at 2 each second.
const quietEvents = 20

func ownLayer(l OwnLimit) limiter.Layer {
	var quiet time.Duration
	if l.Scope == string(limiter.ScopeCluster) && l.Rate > 0 {
		quiet = time.Duration(min(quietEvents*float64(l.Per)/l.Rate, float64(day)))
	}
	return limiter.Layer{Rate: l.Rate, Period: l.Per, Burst: l.Burst, Scope: limiter.Scope(l.Scope), Quiet: quiet, Size: l.Size, Off: l.Mode == "off", Shadow: l.Mode == "shadow"}
}

func sharedLayer(l SharedLimit) limiter.Layer {
	return limiter.Layer{Rate: l.Rate, Period: l.Per, Burst: l.Burst, Concurrency: l.Concurrency, Scope: limiter.Scope(l.Scope), Size: l.Size, Off: l.Mode == "off", Shadow: l.Mode == "shadow"}
}

// prefixes reads addresses and CIDRs; an address is a prefix of its full length.
func prefixes(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			a = a.Unmap()
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		pfx, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("listen.trusted_proxies: %w", err)
		}
		out = append(out, pfx.Masked())
	}
	return out, nil
}

// replicaName tells replicas apart in logs.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "weir"
	}
	var salt [4]byte
	rand.Read(salt[:])
	return host + "-" + hex.EncodeToString(salt[:])
}

// banner tells a person where everything is.
func (p *program) banner(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	public := "http://" + reachable(p.public.Addr())
	fmt.Fprintf(out, "\nweir %s\n\n", version())
	line("public", "%s", public)
	line("private", "http://%s", reachable(p.private.Addr()))
	line("redis", "%s", p.redis.describe)
	if p.redis.memory {
		line("", "NOTHING SURVIVES A RESTART: this Redis lives in memory. Install redis-server to keep stock and orders.")
	}
	if p.shop != nil {
		line("shop", "the built-in sample shop; name your own with upstream.url")
	} else {
		line("shop", "%s", p.cfg.Upstream.URL)
	}
	for _, s := range p.cfg.Sales {
		line("sale", "%s: %d of item %s, buy at %s%s/sales/%s/page", s.ID, s.Total, s.Item, public, p.cfg.Listen.Prefix, s.ID)
	}
	if p.madeToken != "" {
		line("admin token", "%s", p.madeToken)
		line("", "export WEIR_ADMIN_TOKEN=%s   (for weir sale, weir ban)", p.madeToken)
	}
	fmt.Fprintln(out)
}

// reachable is a listener's address as a person would type it.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
