package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

func (k *checker) redis(r RedisConfig) {
	k.oneOf("redis.mode", r.Mode, "auto", "memory", "local", "external")
	external := r.Mode == "external"
	switch {
	case external && len(r.Stock.Addresses) == 0:
		k.add("redis.stock.addresses", "is empty, right with mode external is at least one host:port")
	case !external && len(r.Stock.Addresses) > 0:
		k.add("redis.stock.addresses", "is only read with mode external (mode is %s), right is [] or mode: external", clip(r.Mode))
	}
	k.redisServer("redis.stock", r.Stock)
	if r.Shared == nil {
		return
	}
	if !external {
		k.add("redis.shared", "is only read with mode external (mode is %s), right is null or mode: external", clip(r.Mode))
	} else if len(r.Shared.Addresses) == 0 {
		k.add("redis.shared.addresses", "is empty, right is at least one host:port, or shared: null for the stock's Redis")
	}
	k.redisServer("redis.shared", *r.Shared)
}

func (k *checker) redisServer(path string, s RedisServer) {
	for i, a := range s.Addresses {
		k.redisAddress(fmt.Sprintf("%s.addresses[%d]", path, i), a)
	}
	distinct(k, path+".addresses", s.Addresses)
	if len(s.Addresses) > 1 && s.Master == "" && s.DB != 0 {
		k.add(path+".db", "(%d) cannot be chosen on a cluster, right is 0", s.DB)
	}
	between(k, path+".db", s.DB, 0, 1<<20)
	if s.CAFile != "" && !s.TLS {
		k.add(path+".ca_file", "is never read without TLS, right is tls: true or \"\"")
	}
	between(k, path+".dial_timeout", s.DialTimeout, 10*time.Millisecond, 30*time.Second)
	between(k, path+".read_timeout", s.ReadTimeout, 10*time.Millisecond, 30*time.Second)
	between(k, path+".write_timeout", s.WriteTimeout, 10*time.Millisecond, 30*time.Second)
	between(k, path+".pool", s.Pool, 1, 10_000)
}

func (k *checker) redisAddress(path, v string) {
	const right = "right is host:port or unix:/path"
	if strings.Contains(v, "@") {
		k.add(path, "carries a user or password, and no secret stands in this file; %s, with username and password_file", right)
		return
	}
	if sock, ok := strings.CutPrefix(v, "unix:"); ok {
		if !strings.HasPrefix(sock, "/") || len(sock) > 100 {
			k.add(path, "(%s) is no socket, %s of at most 100 bytes", clip(v), right)
		}
		return
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil || host == "" || !isPort(port) || port == "0" || strings.ContainsAny(host, "/ ") {
		k.add(path, "(%s) is no address of a Redis, %s", clip(v), right)
	}
}
