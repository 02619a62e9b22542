package limiter

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"golang.org/x/time/rate"
)

const (
	maxShards     = 64      // per layer
	keysPerShard  = 256     // below that, more shards would only make them uneven
	overflowTotal = 4096    // overflow buckets per layer, over all shards
	maxNumber     = 1 << 30 // of Burst and Concurrency
	maxSize       = 1 << 24 // keys per layer
	longestToken  = 366 * 24 * time.Hour
)

// policy is a checked Layer with what is computed from it. It is never changed;
// Update puts another in its place.
type policy struct {
	Layer
	limit rate.Limit // events per second, 0 without Rate
	gen   uint32     // counts the Updates; an entry of another gen is brought up to date
}

func newPolicy(l Layer, gen uint32) *policy {
	return &policy{Layer: l, limit: rate.Limit(l.Rate / l.Period.Seconds()), gen: gen}
}

// leased: every event of a key needs a lease.
func (p *policy) leased() bool { return p.limit > 0 && p.Scope == ScopeCluster && p.Quiet == 0 }

// layer is the state of one Layer: shards by hash of the key.
type layer struct {
	seed   maphash.Seed // its own for each layer, so no two layers share a pattern
	shards []*shard     // a power of two, fixed for life
}

func newLayer(l Layer, now time.Time) *layer {
	n := 1
	for n < maxShards && l.Size >= 2*n*keysPerShard {
		n *= 2
	}
	y := &layer{seed: maphash.MakeSeed(), shards: make([]*shard, n)}
	pol := newPolicy(l, 0)
	for i := range y.shards {
		y.shards[i] = newShard(pol, n, now)
	}
	return y
}

func (y *layer) policy() *policy {
	sh := y.shards[0]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.pol
}

// claim locks the shard of key and looks the key up; false (and nothing locked)
// when the layer is off. c.wait is 0 when the key may ask now.
func (y *layer) claim(c *claim, key string, now func() time.Time) bool {
	h := maphash.String(y.seed, key)
	sh := y.shards[h&uint64(len(y.shards)-1)]
	sh.mu.Lock()
	if sh.pol.Off {
		sh.mu.Unlock()
		return false
	}
	c.sh, c.key, c.hash, c.at = sh, key, h, sh.tick(now())
	c.bucket = int(h>>32) & (len(sh.overflow) - 1)
	c.e = sh.find(key)
	if c.e == nil && sh.pol.leased() {
		c.e = sh.admit(c) // a lease must stand somewhere while it is fetched
	}
	c.wait = sh.wait(c)
	return true
}

// check fills in the defaults and reports every fault of every layer.
func check(in []Layer, shared bool) ([]Layer, error) {
	var faults []error
	if len(in) > MaxLayers {
		faults = append(faults, fmt.Errorf("limiter: %d layers, at most %d", len(in), MaxLayers))
	}
	out := make([]Layer, len(in))
	seen := map[string]bool{}
	slots := 0
	for i, l := range in {
		if l.Period == 0 {
			l.Period = time.Second
		}
		if l.Scope == "" {
			l.Scope = ScopeReplica
		}
		if l.Size == 0 {
			l.Size = DefaultSize
		}
		out[i] = l
		where := fmt.Sprintf("limiter: layer %q", l.Name)
		if l.Name == "" {
			where = fmt.Sprintf("limiter: layer %d", i+1)
			faults = append(faults, fmt.Errorf("%s: name: missing", where))
		} else if seen[l.Name] {
			faults = append(faults, fmt.Errorf("%s: name: used twice", where))
		}
		seen[l.Name] = true
		if l.Concurrency > 0 {
			slots++
		}
		if l.Scope == ScopeCluster && !shared {
			faults = append(faults, fmt.Errorf("%s: scope: cluster, and there is no Redis that replicas share", where))
		}
		for _, fault := range l.faults() {
			faults = append(faults, fmt.Errorf("%s: %s", where, fault))
		}
	}
	if slots > MaxConcurrencyLayers {
		faults = append(faults, fmt.Errorf("limiter: concurrency: set on %d layers, at most %d", slots, MaxConcurrencyLayers))
	}
	return out, errors.Join(faults...)
}

// faults names each field that is impossible, defaults being filled in.
func (l Layer) faults() []string {
	var out []string
	say := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	finite := !math.IsNaN(l.Rate) && !math.IsInf(l.Rate, 0) && l.Rate >= 0
	say(!finite, "rate: %v is not a number of events", l.Rate)
	say(l.Period < time.Millisecond, "period: %v, at least 1ms", l.Period)
	say(l.Scope != ScopeReplica && l.Scope != ScopeCluster, "scope: %q, replica or cluster", l.Scope)
	say(l.Quiet < 0 || l.Quiet > 0 && l.Scope != ScopeCluster, "quiet: %v, 0 unless the scope is cluster", l.Quiet)
	say(l.Concurrency < 0 || l.Concurrency > maxNumber, "concurrency: %d, 0 to %d", l.Concurrency, maxNumber)
	say(l.Size < 1 || l.Size > maxSize, "size: %d, 1 to %d", l.Size, maxSize)
	say(l.Rate == 0 && l.Concurrency == 0 && !l.Off, "rate: 0 and no concurrency: nothing is limited")
	if l.Rate > 0 {
		say(l.Burst < 1 || l.Burst > maxNumber, "burst: %d, 1 to %d when rate is set", l.Burst, maxNumber)
		say(finite && l.Rate > maxNumber*l.Period.Seconds(), "rate: %v in %v, at most %d a second", l.Rate, l.Period, maxNumber)
		say(l.Period.Seconds()/l.Rate > longestToken.Seconds(), "rate: %v in %v: one event would take more than a year", l.Rate, l.Period)
	}
	return out
}
