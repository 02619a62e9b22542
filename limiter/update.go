package limiter

import (
	"errors"
	"fmt"
)

// LayerStats are the counters of one layer since New, and its keys now.
type LayerStats struct {
	Name       string
	Scope      Scope
	Keys       int    // keys remembered now
	InFlight   int    // concurrency slots held now
	Allowed    uint64 // requests that this layer and all others allowed
	Refused    uint64 // requests that this layer refused
	Shadowed   uint64 // requests that it would have refused, were it not in shadow
	Evicted    uint64 // keys forgotten for a new one; each had refilled
	Away       int    // keys of a cluster-wide rate whose Redis did not answer
	Overflowed uint64 // allowed requests that found no room and shared a bucket
}

// Update puts new numbers in force at one moment for all layers and keeps the
// state of every key: what is spent stays spent, a smaller burst caps what is
// there, slots stay held. Names and order must be the old ones, since Keys goes
// by them. Nothing changes when it returns an error, which joins all faults.
func (s *Stack) Update(layers []Layer) error {
	layers, err := check(layers, s.cluster != nil)
	if err != nil {
		return err
	}
	s.update.Lock()
	defer s.update.Unlock()
	if err := s.sameNames(layers); err != nil {
		return err
	}
	s.swap(layers)
	// Keys follow when they are next used, or here, a shard at a time so that
	// nobody waits long. The next Update finds none that is two policies behind.
	for _, y := range s.layers {
		for _, sh := range y.shards {
			sh.renewAll()
		}
	}
	return nil
}

func (s *Stack) sameNames(layers []Layer) error {
	if len(layers) != len(s.layers) {
		return fmt.Errorf("limiter: update: %d layers, there are %d", len(layers), len(s.layers))
	}
	var faults []error
	for i, y := range s.layers {
		if was := y.policy().Name; was != layers[i].Name {
			faults = append(faults, fmt.Errorf("limiter: update: layer %q: name: layer %d is %q", layers[i].Name, i+1, was))
		}
	}
	return errors.Join(faults...)
}

// swap changes all policies while it holds every lock, in the order in which
// Take takes them, so no Take sees a mixture.
func (s *Stack) swap(layers []Layer) {
	for i, y := range s.layers {
		for _, sh := range y.shards {
			sh.mu.Lock()
		}
		pol := newPolicy(layers[i])
		for _, sh := range y.shards {
			sh.pol, sh.changed = pol, sh.tick(s.now())
			sh.room = max(1, pol.Size/sh.shards)
		}
	}
	for _, y := range s.layers {
		for _, sh := range y.shards {
			sh.mu.Unlock()
		}
	}
}

func (sh *shard) renewAll() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, key := range sh.keys.Keys() {
		if e, ok := sh.keys.Peek(key); ok {
			sh.renew(e, sh.pol.of(key))
		}
	}
	for _, e := range sh.overflow {
		if e != nil {
			sh.renew(e, sh.pol)
		}
	}
}

// Stats returns the counters of every layer, in order. It locks one shard at a
// time, so the sum is not of one moment. InFlight walks the keys of layers that
// have Concurrency: meant for a scrape, not for each request.
func (s *Stack) Stats() []LayerStats {
	out := make([]LayerStats, len(s.layers))
	for i, y := range s.layers {
		for _, sh := range y.shards {
			sh.addTo(&out[i])
		}
	}
	return out
}

func (sh *shard) addTo(sum *LayerStats) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sum.Name, sum.Scope = sh.pol.Name, sh.pol.Scope
	sum.Keys += sh.keys.Len()
	sum.Allowed += sh.stats.Allowed
	sum.Refused += sh.stats.Refused
	sum.Shadowed += sh.stats.Shadowed
	sum.Evicted += sh.stats.Evicted
	sum.Overflowed += sh.stats.Overflowed
	if sh.pol.Scope == ScopeCluster {
		for _, e := range sh.keys.Values() {
			if e.lease != nil && e.lease.away {
				sum.Away++
			}
		}
	}
	if sh.pol.Concurrency == 0 && sh.pol.exceptSlots() == 0 {
		return
	}
	for _, e := range sh.keys.Values() {
		sum.InFlight += int(e.busy.Load())
	}
	for _, e := range sh.overflow {
		if e != nil {
			sum.InFlight += int(e.busy.Load())
		}
	}
}
