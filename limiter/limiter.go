// Package limiter answers "may this caller ask now", over several layers at
// once: say user, device, address and network, or item, route and upstream.
//
// A Stack holds the layers in order, narrow before broad. Take asks all of them
// and spends only when all agree, so a refused request has used up nothing
// anywhere. State lies in this process; a limit that must hold over replicas is
// a different thing (a cluster lease) and is not made here.
package limiter

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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
	Off         bool          // the layer is not asked
	Shadow      bool          // the layer is asked and counted and refuses nobody
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
	now    func() time.Time
	update sync.Mutex // one Update at a time
	layers []*layer
}

// New makes a Stack. The clock may step: forward it gives at most one burst,
// backward it neither gives nor freezes. All faults of all layers are joined in
// the error, each with the layer and the field. It fails whole.
func New(layers []Layer, now func() time.Time) (*Stack, error) {
	if now == nil {
		return nil, errors.New("limiter: a clock is needed")
	}
	layers, err := check(layers)
	if err != nil {
		return nil, err
	}
	s := &Stack{now: now}
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
func (s *Stack) Take(k Keys) Decision {
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
		if c.wait == 0 {
			continue
		}
		if c.sh.pol.Shadow {
			c.sh.stats.Shadowed++
			continue
		}
		d := Decision{Layer: c.sh.pol.Name, RetryAfter: c.wait}
		c.sh.stats.Refused++
		unlock(claims[:n])
		return d
	}
	d := Decision{OK: true}
	for i := range claims[:n] {
		claims[i].spend(&d)
	}
	unlock(claims[:n])
	return d
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
