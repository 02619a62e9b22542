package main

import (
	"net/url"
	"strings"
	"time"
)

// waitMargin is how much longer a Redis connection must listen than a WAIT
// lasts; a wait of 100 ms takes up to 200.
const waitMargin = 100 * time.Millisecond

func (k *checker) stock(s StockConfig, r RedisConfig) {
	between(k, "stock.share_buffer", s.ShareBuffer, 0, 10)
	between(k, "stock.wait_replicas", s.WaitReplicas, 0, 5)
	between(k, "stock.wait_timeout", s.WaitTimeout, time.Millisecond, 10*time.Second)
	if s.WaitReplicas == 0 {
		return
	}
	if r.Mode != "external" {
		k.add("stock.wait_replicas", "(%d) needs replicas, right with redis.mode %s is 0", s.WaitReplicas, clip(r.Mode))
	}
	if most := r.Stock.ReadTimeout - waitMargin; s.WaitTimeout > most {
		k.add("stock.wait_timeout", "(%s) is longer than the connection listens, right is at most redis.stock.read_timeout - %s (%s)",
			formatDuration(s.WaitTimeout), formatDuration(waitMargin), formatDuration(max(most, 0)))
	}
}

func (k *checker) archive(a ArchiveConfig) {
	between(k, "archive.interval", a.Interval, time.Second, time.Hour)
	between(k, "archive.keep", a.Keep, time.Minute, 365*day)
	const right = "right is sqlite:PATH, postgres://user@host/database or \"\""
	path, sqlite := strings.CutPrefix(a.URL, "sqlite:")
	switch {
	case a.URL == "":
		if a.PasswordFile != "" {
			k.add("archive.password_file", "is never read without an archive, right is to set archive.url too")
		}
		return
	case sqlite && path != "" && !strings.HasPrefix(path, "//"):
		if a.PasswordFile != "" {
			k.add("archive.password_file", "is never read with SQLite, right is \"\"")
		}
		return
	}
	u, err := url.Parse(a.URL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || (u.Host == "" && u.Query().Get("host") == "") {
		k.add("archive.url", "(%s) is no archive, %s", clip(hidePassword(a.URL)), right)
		return
	}
	if strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "" && u.Query().Get("database") == "" {
		k.add("archive.url", "(%s) names no database, %s", clip(hidePassword(a.URL)), right)
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		k.add("archive.url", "carries a password, and no secret stands in this file; %s, with archive.password_file", right)
	}
}

// hidePassword keeps what may be a password out of an error.
func hidePassword(s string) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		return "…" + s[at:]
	}
	return s
}
