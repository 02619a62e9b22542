package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (k *checker) upstream(u UpstreamConfig) {
	if !u.Sample() {
		k.origin("upstream.url", u.URL, "http://10.0.0.5:8000, or sample for the built-in shop")
	}
	between(k, "upstream.timeout", u.Timeout, 100*time.Millisecond, 5*time.Minute)
	between(k, "upstream.connect_timeout", u.ConnectTimeout, 10*time.Millisecond, max(u.Timeout, 10*time.Millisecond))
	between(k, "upstream.max_connections", u.MaxConnections, 1, 100_000)
	between(k, "upstream.idle_timeout", u.IdleTimeout, 100*time.Millisecond, time.Hour)
	between(k, "upstream.response_limit", u.ResponseLimit, 1<<10, 1<<30)
	for i, s := range u.ReleaseStatuses {
		if s < 400 || s > 499 {
			k.add(fmt.Sprintf("upstream.release_statuses[%d]", i), "(%d) does not say that no order was made, right is 400 to 499", s)
		}
	}
	distinct(k, "upstream.release_statuses", u.ReleaseStatuses)
	if u.Lookup != "" && !isTemplate(u.Lookup, "{id}") {
		k.add("upstream.lookup", "(%s) is no lookup, right is a path with {id} once such as /orders?reservation={id}", clip(u.Lookup))
	}
	if o := u.Orders; o != "" && !isTemplate(o, "{sale}") {
		k.add("upstream.orders", "(%s) is no list of orders, right is a path with {sale} once such as /orders?sale={sale}, or \"\"", clip(o))
	}
	if q := u.Quota; q != "" && !isTemplate(q, "{item}", "{sale}") {
		k.add("upstream.quota", "(%s) is no quota, right is a path with {item} and {sale} once each such as /quotas/{item}/{sale}, or \"\"", clip(q))
	}
	if p := u.OrderPage; p != "" && (!localPath(p) || strings.Count(p, "{order}") != 1) {
		k.add("upstream.order_page", "(%s) is no page of this site, right is a path with {order} once such as /orders/{order}, or \"\"", clip(p))
	}
	k.name("upstream.key_id", u.KeyID)
}

func (k *checker) identity(id IdentityConfig, proxies bool) {
	k.jwt(id.JWT)
	k.token("identity.cookie.name", id.Cookie.Name)
	if id.Cookie.Name == "" && id.Cookie.SecretFile != "" {
		k.add("identity.cookie.secret_file", "is never read without a cookie, right is to set identity.cookie.name too")
	}
	if id.Cookie.Name != "" && id.Cookie.Name == id.JWT.Cookie {
		k.add("identity.cookie.name", "(%s) is the cookie of identity.jwt, right is another or \"\"", clip(id.Cookie.Name))
	}
	k.token("identity.device.cookie", id.Device.Cookie)
	for _, h := range []struct{ path, name string }{{"identity.header", id.Header}, {"identity.device.header", id.Device.Header}} {
		k.token(h.path, h.name)
		if h.name != "" && !proxies {
			k.add(h.path, "(%s) would never be believed, right is to name the proxies that set it in listen.trusted_proxies", clip(h.name))
		}
	}
	between(k, "identity.cache", id.Cache, 1, 10_000_000)
	if s := id.SignIn; s != "" && !localPath(s) {
		k.add("identity.sign_in", "(%s) is no path of this site, right is such as /login?back={page}, or \"\"", clip(s))
	}
}

func (k *checker) jwt(j JWTConfig) {
	k.token("identity.jwt.cookie", j.Cookie)
	k.token("identity.jwt.header", j.Header)
	for i, a := range j.Algorithms {
		k.oneOf(fmt.Sprintf("identity.jwt.algorithms[%d]", i), a, "HS256", "RS256", "EdDSA")
	}
	distinct(k, "identity.jwt.algorithms", j.Algorithms)
	between(k, "identity.jwt.leeway", j.Leeway, 0, 5*time.Minute)
	if !j.On() {
		return
	}
	if len(j.Algorithms) == 0 {
		k.add("identity.jwt.algorithms", "is empty, right is at least one of HS256, RS256, EdDSA, or cookie and header \"\" to turn tokens off")
	}
	hmac := slices.Contains(j.Algorithms, "HS256")
	public := slices.Contains(j.Algorithms, "RS256") || slices.Contains(j.Algorithms, "EdDSA")
	if !hmac && j.SecretFile != "" {
		k.add("identity.jwt.secret_file", "is only for HS256, which algorithms does not list; right is one or the other")
	}
	if public && len(j.PublicKeyFiles) == 0 {
		k.add("identity.jwt.public_key_files", "is empty, right with RS256 or EdDSA is at least one PEM file")
	}
	if !public && len(j.PublicKeyFiles) > 0 {
		k.add("identity.jwt.public_key_files", "is only for RS256 and EdDSA, which algorithms does not list; right is one or the other")
	}
	distinct(k, "identity.jwt.public_key_files", j.PublicKeyFiles)
	if j.Claim == "" {
		k.add("identity.jwt.claim", "is empty, right is the claim that names the user such as sub")
	}
}

// localPath says whether p is a path of this site: no browser takes it for another.
func localPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && !strings.ContainsAny(p, " \r\n\t\\")
}

// isTemplate says whether v is a path, perhaps with a query, that holds each
// placeholder once.
func isTemplate(v string, holders ...string) bool {
	for _, h := range holders {
		if strings.Count(v, h) != 1 {
			return false
		}
	}
	return strings.HasPrefix(v, "/") && !strings.ContainsAny(v, " #\r\n")
}
