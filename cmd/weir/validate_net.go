package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func (k *checker) listen(l ListenConfig) {
	k.address("listen.address", l.Address)
	k.prefix("listen.prefix", l.Prefix)
	k.proxies("listen.trusted_proxies", l.TrustedProxies)
	if l.PublicURL != "" {
		k.origin("listen.public_url", l.PublicURL, "https://sale.example.com")
	}
	between(k, "listen.read_timeout", l.ReadTimeout, 100*time.Millisecond, 10*time.Minute)
	between(k, "listen.write_timeout", l.WriteTimeout, 100*time.Millisecond, 10*time.Minute)
	between(k, "listen.idle_timeout", l.IdleTimeout, 100*time.Millisecond, time.Hour)
	between(k, "listen.header_limit", l.HeaderLimit, 1<<10, 1<<20)
	between(k, "listen.body_limit", l.BodyLimit, 1<<10, 64<<20)
	between(k, "listen.max_connections", l.MaxConnections, 1, 10_000_000)
	between(k, "listen.max_connections_per_address", l.MaxConnectionsPerAddress, 1, l.MaxConnections)
	between(k, "listen.drain", l.Drain, 0, 10*time.Minute)
}

func (k *checker) admin(a AdminConfig) {
	k.address("admin.address", a.Address)
	names, files := map[string]bool{}, map[string]bool{}
	for i, t := range a.Tokens {
		path := fmt.Sprintf("admin.tokens[%d]", i)
		k.name(path+".name", t.Name)
		k.oneOf(path+".role", t.Role, "viewer", "security", "merchandiser", "operator", "shop")
		if t.TokenFile == "" {
			k.add(path+".token_file", "is missing, right is the path of a file that holds the token")
		}
		if t.Name != "" && names[t.Name] {
			k.add(path+".name", "(%s) stands twice, right is one name for each token", clip(t.Name))
		}
		if t.TokenFile != "" && files[t.TokenFile] {
			k.add(path+".token_file", "(%s) stands twice, right is one file for each token", clip(t.TokenFile))
		}
		names[t.Name], files[t.TokenFile] = true, true
	}
}

// address wants host:port with an optional host.
func (k *checker) address(path, v string) {
	if _, port, err := net.SplitHostPort(v); err != nil || !isPort(port) {
		k.add(path, "(%s) is no address to listen on, right is host:port or :port such as 127.0.0.1:9090", clip(v))
	}
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// apart wants two listeners that can both open. A host that means every
// address takes the port from all others.
func (k *checker) apart(path, a, b string) {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return
	}
	if hostA == hostB || everyHost(hostA) || everyHost(hostB) {
		k.add(path, "(%s) is taken by listen.address (%s), right is another port", clip(a), clip(b))
	}
}

func everyHost(h string) bool { return h == "" || h == "0.0.0.0" || h == "::" }

// loopback says that an address can be reached from this host only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func (k *checker) prefix(path, v string) {
	if len(v) < 2 || !strings.HasPrefix(v, "/") || strings.HasSuffix(v, "/") || !plainPath(v) {
		k.add(path, "(%s) is no prefix, right is a path with one leading and no trailing slash such as /_weir", clip(v))
	}
}

// plainPath wants a path that is its own canonical form: nothing to unescape,
// no empty, "." or ".." segment.
func plainPath(v string) bool {
	for _, segment := range strings.Split(v, "/")[1:] {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(v, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`%?#\"<>^`+"`{|}", r)
	})
}

func (k *checker) proxies(path string, list []string) {
	seen := map[netip.Prefix]bool{}
	for i, v := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		p, err := parseNetwork(v)
		switch {
		case err != nil:
			k.add(at, "(%s) is no address or network, right is such as 10.0.0.7 or 10.0.0.0/8", clip(v))
		case p != p.Masked():
			k.add(at, "(%s) has bits outside its mask, right is %s", clip(v), p.Masked())
		case p.Addr().Is4() && p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 7:
			k.add(at, "(%s) trusts the whole world, so anybody may claim any address and user; right is the network of your proxies, /8 or narrower", clip(v))
		case seen[p]:
			k.add(at, "(%s) stands twice, right is once", clip(v))
		}
		seen[p] = true
	}
}

// parseNetwork reads an address or CIDR; IPv4 inside IPv6 becomes plain IPv4.
func parseNetwork(v string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		a, err := netip.ParseAddr(v)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("no address or network: %q", v)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96), nil
	} else if a.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("network %q is wider than IPv4", v)
	}
	return p, nil
}

// origin wants scheme://host[:port] and nothing else.
func (k *checker) origin(path, v, right string) {
	u, err := url.Parse(v)
	if err == nil && u.User != nil {
		k.add(path, "carries a user or password, and no secret stands in this file; right is such as %s", right)
		return
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() != "" && !isPort(u.Port()) ||
		strings.TrimPrefix(v, u.Scheme+"://") != u.Host {
		k.add(path, "(%s) is no scheme and host, right is such as %s", clip(v), right)
	}
}
