// Package limiter answers "may this caller ask now", over several layers at
// once: say user, device, address and network, or item, route and upstream.
//
// A Stack holds the layers in order, narrow before broad. Take asks all of them
// and spends only when all agree, so a refused request has used up nothing
// anywhere. State lies in this process; of a rate that must hold over replicas
// it keeps a lease, a short-lived part that one script in Redis granted.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/tasks"
)

const (
	// MaxLayers bounds a Stack: Take locks one shard per layer.
	MaxLayers = 16
	// MaxConcurrencyLayers bounds the layers with Concurrency > 0 in a Stack: a
	// Decision carries one slot for each.
	MaxConcurrencyLayers = 8
	// DefaultSize is the number of keys a layer remembers when Size is 0.
	DefaultSize = 65536
)

// Scope says whose events a Rate counts.
type Scope string

const (
	ScopeReplica Scope = "replica" // those of this process
	ScopeCluster Scope = "cluster" // those of all replicas together, see Cluster
)

// busyRetry is what a caller refused by Concurrency is told: nobody knows when
// a slot frees, and one second is what people can be asked to wait.
const busyRetry = time.Second

// Layer is one limit, kept apart for each key. A layer needs Rate or
// Concurrency or both.
type Layer struct {
	Name        string        // metric label, unique in the Stack, e.g. "user"
	Rate        float64       // events per Period for each key; 0 with Concurrency > 0 = only concurrency
	Period      time.Duration // 0 = 1 s
	Burst       int           // events at once after a rest; at least 1 when Rate > 0, else not used
	Concurrency int           // > 0: at most so many at once for each key; Decision.Done frees
	Size        int           // most keys remembered, 0 = DefaultSize; later keys share overflow buckets
	Scope       Scope         // of Rate; "" = ScopeReplica. Concurrency counts this replica's requests
	// Quiet is for ScopeCluster and many keys: a key that rested so long may ask once
	// without Redis, which hears of it when the key asks again. 0 = never. A rate then
	// holds but for one event in Quiet on each replica but one.
	Quiet  time.Duration
	Off    bool // the layer is not asked
	Shadow bool // the layer is asked and counted and refuses nobody
	// Except gives single keys numbers of their own, at most MaxExcept. They always
	// have room.
	Except map[string]Numbers
}

// MaxExcept bounds the exceptions of a layer.
const MaxExcept = 1024

// Numbers are what a layer has for one key.
type Numbers struct {
	Rate        float64 // as in Layer, in the layer's Period
	Burst       int
	Concurrency int
	Off         bool // the layer is not asked about this key
}

// Keys says whom a request counts for: one key per layer, in the order of the
// layers; "" means that the layer does not apply to this request. A key is only
// read during Take (it is cloned when it is remembered), so it may lie in a
// buffer that is used again afterwards, but must not change meanwhile.
type Keys []string

// Decision is the answer of Take. An allowed one may hold concurrency slots:
// its owner calls Done once, on one copy.
type Decision struct {
	OK bool
	// Layer is the name of the layer that refused, "" when OK.
	Layer string
	// RetryAfter is how long until the refusing layer has one token for this
	// key; one second when it refused by concurrency; 0 when OK.
	RetryAfter time.Duration

	held  [MaxConcurrencyLayers]*atomic.Int32
	holds int
}

// Done gives the concurrency slots of an allowed Decision back. It does nothing
// the second time, and nothing when no slot is held. It is for the one goroutine
// that owns the Decision; a copy made before Done must not be Done too.
func (d *Decision) Done() {
	for i := range d.holds {
		d.held[i].Add(-1)
		d.held[i] = nil
	}
	d.holds = 0
}

// Stack is an ordered set of layers. All methods may be called from any
// goroutine.
//
// The trade-off: each layer is cut into shards with a lock each, and a Take
// holds one shard lock per layer (always in the order of the layers) while it
// checks and spends. That makes it all or nothing without ever giving tokens
// back, which x/time/rate cannot do right when others spend in between; the
// price is that all callers of one shared key queue on one lock, about 100 ns
// each.
type Stack struct {
	now     func() time.Time
	update  sync.Mutex // one Update at a time
	layers  []*layer
	cluster *Cluster    // nil: no layer may have ScopeCluster
	flights tasks.Group // scripts on their way
}

// New makes a Stack. The clock may step: forward it gives at most one burst,
// backward it neither gives nor freezes. All faults of all layers are joined in
// the error, each with the layer and the field. It fails whole.
func New(layers []Layer, now func() time.Time) (*Stack, error) { return NewShared(layers, now, nil) }

// NewShared makes a Stack whose layers may have ScopeCluster. Close it.
func NewShared(layers []Layer, now func() time.Time, c *Cluster) (*Stack, error) {
	if now == nil {
		return nil, errors.New("limiter: a clock is needed")
	}
	layers, err := check(layers, c != nil)
	if err != nil {
		return nil, err
	}
	s := &Stack{now: now, cluster: c}
	for _, l := range layers {
		s.layers = append(s.layers, newLayer(l, now()))
	}
	return s, nil
}

// Take asks every layer that applies and, if none refuses, spends one event in
// each and takes its concurrency slot, in one atomic act: a refused request has
// spent nothing anywhere. The layers are asked in order and the first that
// refuses answers, so broad layers are not even locked for a caller whom a
// narrow one turns away. It panics if there is not one key per layer.
//
// Take never waits. Where a lease has run out it refuses and has Redis asked;
// TakeWithin waits for the answer.
func (s *Stack) Take(k Keys) Decision {
	d, _ := s.take(k, nil)
	return d
}

// TakeAtOnce is Take where this process knows the answer. Where it does not, known
// is false, nothing is spent, Redis has been asked, and TakeWithin waits for it.
func (s *Stack) TakeAtOnce(k Keys) (d Decision, known bool) {
	var flights [MaxLayers]chan struct{}
	d, waits := s.take(k, &flights)
	return d, waits == 0
}

// TakeWithin is Take, and waits for Redis where only leases are missing, as long
// as ctx lasts. Whoever a limit of this replica, or an answer of Redis younger
// than a life of a lease, refuses does not wait.
func (s *Stack) TakeWithin(ctx context.Context, k Keys) Decision {
	for range maxFlights {
		var flights [MaxLayers]chan struct{}
		d, n := s.take(k, &flights)
		if n == 0 {
			return d
		}
		for _, back := range flights[:n] {
			select {
			case <-back:
			case <-ctx.Done():
				return s.Take(k)
			}
		}
	}
	return s.Take(k)
}

// maxFlights bounds how often one caller waits for Redis.
const maxFlights = 8

// Close waits for the scripts that are on their way.
func (s *Stack) Close() {
	s.flights.Wait()
	if s.cluster != nil {
		s.cluster.flights.Wait()
	}
}

// take is Take. With flights it gives the scripts that must be waited for
// instead of a refusal, and their number.
func (s *Stack) take(k Keys, flights *[MaxLayers]chan struct{}) (d Decision, waits int) {
	if len(k) != len(s.layers) {
		panic(fmt.Sprintf("limiter: %d keys for %d layers", len(k), len(s.layers)))
	}
	var claims [MaxLayers]claim
	n := 0
	for i, key := range k {
		if key == "" {
			continue
		}
		c := &claims[n]
		if !s.layers[i].claim(c, key, s.now) {
			continue // off
		}
		n++
		c.probe(s)
		if c.wait == 0 {
			continue
		}
		c.sh.top.count(c.hash, c.key, c.at)
		if c.sh.pol.Shadow {
			c.sh.stats.Shadowed++
			continue
		}
		c.sh.stats.Refused++
		d = Decision{Layer: c.sh.pol.Name, RetryAfter: c.wait}
		unlock(claims[:n])
		return d, 0
	}
	for i := range claims[:n] {
		c := &claims[i]
		if !c.short {
			continue
		}
		back := s.fetch(c)
		switch {
		case c.sh.pol.Shadow: // it is not waited for
		case flights == nil:
			c.sh.stats.Refused++
			d = Decision{Layer: c.sh.pol.Name, RetryAfter: leaseLife}
			unlock(claims[:n])
			return d, 0
		default:
			flights[waits] = back
			waits++
		}
	}
	if waits == 0 {
		d.OK = true
		for i := range claims[:n] {
			claims[i].spend(&d)
		}
	}
	unlock(claims[:n])
	return d, waits
}

func unlock(claims []claim) {
	for i := range claims {
		claims[i].sh.mu.Unlock()
	}
}

// Policy returns the layer of that name as it applies now, defaults filled in.
func (s *Stack) Policy(name string) (Layer, bool) {
	for _, l := range s.layers {
		p := l.policy()
		if p.Name == name {
			return p.Layer, true
		}
	}
	return Layer{}, false
}
