package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Validate finds the values that cannot be meant, all of them. It is pure: it
// reads no file, no clock, no environment (Secrets looks at the secrets).
func (c Config) Validate() []Fault {
	var k checker
	if c.Data == "" {
		k.add("data", "is empty, right is a folder such as data")
	}
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	between(&k, "log.refusals_per_second", c.Log.RefusalsPerSecond, 0, 100_000)
	k.listen(c.Listen)
	k.admin(c.Admin)
	k.apart("admin.address", c.Admin.Address, c.Listen.Address)
	k.redis(c.Redis)
	k.stock(c.Stock, c.Redis)
	k.archive(c.Archive)
	k.upstream(c.Upstream)
	if c.Listen.WriteTimeout <= c.Upstream.Timeout {
		k.add("listen.write_timeout", "(%s) would cut answers that wait for the shop, right is more than upstream.timeout (%s)",
			formatDuration(c.Listen.WriteTimeout), formatDuration(c.Upstream.Timeout))
	}
	k.identity(c.Identity, len(c.Listen.TrustedProxies) > 0)
	k.routes(c.Routes, c.Listen)
	k.sales(c.Sales, c.Upstream)
	k.limits(c.Limits)
	k.captcha(c.Captcha)
	between(&k, "blacklist.poll", c.Blacklist.Poll, 50*time.Millisecond, time.Second)
	between(&k, "blacklist.max_entries", c.Blacklist.MaxEntries, 1, 10_000_000)
	between(&k, "judge.window", c.Judge.Window, time.Second, time.Hour)
	between(&k, "judge.offences", c.Judge.Offences, 1, 1_000_000)
	between(&k, "judge.ban", c.Judge.Ban, time.Second, 365*day)
	return k.faults
}

// checker collects faults.
type checker struct{ faults []Fault }

func (k *checker) add(path, format string, args ...any) {
	k.faults = append(k.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

// between wants low ≤ v ≤ high.
func between[T cmp.Ordered](k *checker, path string, v, low, high T) {
	if v < low || v > high {
		k.add(path, "(%s) is out of range, right is %s to %s", show(v), show(low), show(high))
	}
}

func show(v any) string {
	if d, ok := v.(time.Duration); ok {
		return formatDuration(d)
	}
	return fmt.Sprint(v)
}

func (k *checker) oneOf(path, v string, right ...string) {
	if !slices.Contains(right, v) {
		k.add(path, "(%s) is unknown, right is one of %s", clip(v), strings.Join(right, ", "))
	}
}

// distinct reports each value that stands twice in a list.
func distinct[T comparable](k *checker, path string, list []T) {
	seen := map[T]bool{}
	for i, v := range list {
		if seen[v] {
			k.add(fmt.Sprintf("%s[%d]", path, i), "(%s) stands twice, right is once", clip(fmt.Sprint(v)))
		}
		seen[v] = true
	}
}

// nameRule is the form of item, sale and key ids; they become keys, labels and paths.
const nameRule = `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`

var (
	nameForm  = regexp.MustCompile(`^` + nameRule + `$`)
	tokenForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$") // RFC 9110 token
)

func (k *checker) name(path, v string) {
	switch {
	case v == "":
		k.add(path, "is missing, right is %s", nameRule)
	case !nameForm.MatchString(v):
		k.add(path, "(%s) has a form that cannot be used, right is %s", clip(v), nameRule)
	}
}

// token wants the name of a header or a cookie, or "".
func (k *checker) token(path, v string) {
	if v != "" && !tokenForm.MatchString(v) {
		k.add(path, "(%s) is no name for a header or cookie, right is letters, digits and - or _", clip(v))
	}
}

func (k *checker) captcha(c CaptchaConfig) {
	between(k, "captcha.ttl", c.TTL, 10*time.Second, 10*time.Minute)
	between(k, "captcha.sound_ttl", c.SoundTTL, 10*time.Second, 10*time.Minute)
	between(k, "captcha.pass_ttl", c.PassTTL, 30*time.Second, day)
	between(k, "captcha.digits", c.Digits, 6, 10)
	between(k, "captcha.width", c.Width, 200, 800)
	between(k, "captcha.height", c.Height, 60, min(400, max(c.Width/2, 60)))
	between(k, "captcha.max_live", c.MaxLive, 1, 16)
}

func (k *checker) limits(l LimitsConfig) {
	k.exceptions(l)
	for _, o := range []struct {
		name string
		OwnLimit
	}{
		{"user", l.User}, {"device", l.Device}, {"address", l.Address}, {"network", l.Network},
		{"pass", l.Pass}, {"signature", l.Signature}, {"challenge", l.Challenge},
	} {
		path := "limits." + o.name
		if o.Rate == 0 {
			k.add(path+".rate", "is 0, which refuses everybody for ever; right is more than 0, or mode: off")
		}
		k.oneOf(path+".scope", o.Scope, "replica", "cluster")
		k.bucket(path, o.Rate, o.Per, o.Burst, o.Size, o.Mode)
	}
	for _, s := range []struct {
		name string
		SharedLimit
	}{{"item", l.Item}, {"route", l.Route}, {"upstream", l.Upstream}, {"cluster", l.Cluster}} {
		path := "limits." + s.name
		between(k, path+".concurrency", s.Concurrency, 1, 1_000_000)
		k.oneOf(path+".scope", s.Scope, "replica", "cluster")
		k.bucket(path, s.Rate, s.Per, s.Burst, s.Size, s.Mode)
	}
}

func (k *checker) bucket(path string, rate float64, per time.Duration, burst, size int, mode string) {
	switch second := rate / per.Seconds(); {
	case math.IsNaN(rate) || rate < 0 || rate > 0 && per > 0 && second > 1e9:
		k.add(path+".rate", "(%g) is out of range, right is 0 to 1000000000 a second", rate)
	case rate > 0 && per > 0 && second < 1/(366*day).Seconds():
		k.add(path+".rate", "(%g) gives less than one token a year, right is more", rate)
	}
	between(k, path+".per", per, time.Millisecond, day)
	least := 0
	if rate > 0 {
		least = 1 // a bucket that holds no token lets nothing through
	}
	between(k, path+".burst", burst, least, 1_000_000_000)
	between(k, path+".size", size, 1, 1<<24)
	k.oneOf(path+".mode", mode, "enforce", "shadow", "off")
}
