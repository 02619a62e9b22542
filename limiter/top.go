package limiter

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// topPerShard is how many keys a shard counts refusals of. By the Space-Saving
	// algorithm (Metwally, Agrawal, El Abbadi, 2005) every key with more than one in
	// topPerShard of its shard's refusals is among them.
	topPerShard = 16
	// topHalf is how long refusals take to count half.
	topHalf = time.Minute
)

// Offender is a key that was refused often of late.
type Offender struct {
	Key string
	// Refused counts its refusals, and those that a layer in shadow would have
	// been; each counts half after a minute. It is too high by at most Doubt.
	Refused, Doubt uint64
}

// tally counts the refusals of the keys that are refused most, in fixed memory.
// The lock of its shard guards it.
type tally struct {
	rows   []tallied
	halved time.Time
}

type tallied struct {
	hash uint64
	Offender
}

// count notes one refusal. Only a key that is not among the rows is copied.
func (y *tally) count(hash uint64, key string, at time.Time) {
	y.age(at)
	least := 0
	for i := range y.rows {
		row := &y.rows[i]
		if row.hash == hash && row.Key == key {
			row.Refused++
			return
		}
		if row.Refused < y.rows[least].Refused {
			least = i
		}
	}
	if len(y.rows) < topPerShard {
		y.rows = append(y.rows, tallied{hash: hash, Offender: Offender{Key: strings.Clone(key), Refused: 1}})
		return
	}
	// The newcomer may have been refused as often as the one it replaces.
	row := &y.rows[least]
	*row = tallied{hash: hash, Offender: Offender{Key: strings.Clone(key), Refused: row.Refused + 1, Doubt: row.Refused}}
}

// age halves all counts for each minute that has passed.
func (y *tally) age(at time.Time) {
	if y.halved.IsZero() {
		y.halved = at
	}
	halves := min(at.Sub(y.halved)/topHalf, 63)
	if halves <= 0 {
		return
	}
	y.halved = y.halved.Add(halves * topHalf)
	if halves == 63 {
		y.halved = at
	}
	for i := range y.rows {
		y.rows[i].Refused >>= halves
		y.rows[i].Doubt >>= halves
	}
	y.rows = slices.DeleteFunc(y.rows, func(r tallied) bool { return r.Refused == 0 })
}

// Top are the keys that the layer of that name refused most often of late, at
// most n, the first one most often. It locks one shard at a time.
func (s *Stack) Top(layer string, n int) []Offender {
	var all []Offender
	for _, y := range s.layers {
		if y.policy().Name != layer {
			continue
		}
		for _, sh := range y.shards {
			sh.mu.Lock()
			sh.top.age(sh.tick(s.now()))
			for _, row := range sh.top.rows {
				all = append(all, row.Offender)
			}
			sh.mu.Unlock()
		}
	}
	slices.SortFunc(all, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), strings.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// Layers are the layers as they apply now, defaults filled in, in order.
func (s *Stack) Layers() []Layer {
	all := make([]Layer, len(s.layers))
	for i, y := range s.layers {
		all[i] = y.policy().Layer
	}
	return all
}
