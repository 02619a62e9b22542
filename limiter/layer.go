package limiter

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
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
	alone bool       // of one key
	// except are the policies of the keys with numbers of their own.
	except map[string]*policy
}

func newPolicy(l Layer) *policy {
	p := &policy{Layer: l, limit: rate.Limit(l.Rate / l.Period.Seconds())}
	if len(l.Except) > 0 {
		p.except = make(map[string]*policy, len(l.Except))
		for key, n := range l.Except {
			own := newPolicy(l.with(n))
			own.alone = true
			p.except[key] = own
		}
	}
	return p
}

// with is the layer with the numbers of one key.
func (l Layer) with(n Numbers) Layer {
	l.Rate, l.Burst, l.Concurrency, l.Off, l.Except = n.Rate, n.Burst, n.Concurrency, l.Off || n.Off, nil
	return l
}

// of is the policy of a key.
func (p *policy) of(key string) *policy {
	if p.except != nil {
		if own, ok := p.except[key]; ok {
			return own
		}
	}
	return p
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
	pol := newPolicy(l)
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
	pol := sh.pol.of(key)
	if pol.Off {
		sh.mu.Unlock()
		return false
	}
	c.sh, c.key, c.hash, c.at = sh, key, h, sh.tick(now())
	c.bucket = int(h>>32) & (len(sh.overflow) - 1)
	c.e = sh.find(key)
	switch {
	case c.e != nil:
	case pol.alone:
		c.e = newEntry(pol, false)
		sh.keys.Add(strings.Clone(key), c.e)
	case pol.leased():
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
		faults = append(faults, l.exceptFaults(where)...)
		slots += l.exceptSlots()
	}
	if slots > MaxConcurrencyLayers {
		faults = append(faults, fmt.Errorf("limiter: concurrency: set on %d layers, at most %d", slots, MaxConcurrencyLayers))
	}
	return out, errors.Join(faults...)
}

// exceptSlots is 1 when only an exception has Concurrency: a Decision carries a
// slot for it too.
func (l Layer) exceptSlots() int {
	if l.Concurrency > 0 {
		return 0
	}
	for _, n := range l.Except {
		if n.Concurrency > 0 {
			return 1
		}
	}
	return 0
}

func (l Layer) exceptFaults(where string) (faults []error) {
	if len(l.Except) > MaxExcept {
		faults = append(faults, fmt.Errorf("%s: except: %d keys, at most %d", where, len(l.Except), MaxExcept))
	}
	for _, key := range slices.Sorted(maps.Keys(l.Except)) {
		if key == "" {
			faults = append(faults, fmt.Errorf("%s: except: a key is empty", where))
		}
		for _, fault := range l.with(l.Except[key]).faults() {
			faults = append(faults, fmt.Errorf("%s: except %q: %s", where, key, fault))
		}
	}
	return faults
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
