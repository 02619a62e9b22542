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
	// topKey is how many bytes of a key are kept, so that a flood of new ones
	// allocates nothing.
	topKey = 64
	// topHalf is how long refusals take to count half.
	topHalf = time.Minute
)

// Offender is a key that was refused often of late.
type Offender struct {
	Key string // its first 64 bytes
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
	hash           uint64
	key            [topKey]byte
	size           uint8
	refused, doubt uint64
}

func (r *tallied) is(hash uint64, key string) bool {
	return r.hash == hash && string(r.key[:r.size]) == key[:min(len(key), topKey)]
}

func (r *tallied) begin(hash uint64, key string, doubt uint64) {
	r.hash, r.size = hash, uint8(copy(r.key[:], key))
	r.refused, r.doubt = doubt+1, doubt
}

// count notes one refusal.
func (y *tally) count(hash uint64, key string, at time.Time) {
	y.age(at)
	least := 0
	for i := range y.rows {
		row := &y.rows[i]
		if row.is(hash, key) {
			row.refused++
			return
		}
		if row.refused < y.rows[least].refused {
			least = i
		}
	}
	if len(y.rows) < topPerShard {
		y.rows = append(y.rows, tallied{})
		y.rows[len(y.rows)-1].begin(hash, key, 0)
		return
	}
	// The newcomer may have been refused as often as the one it replaces.
	y.rows[least].begin(hash, key, y.rows[least].refused)
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
		y.rows[i].refused >>= halves
		y.rows[i].doubt >>= halves
	}
	y.rows = slices.DeleteFunc(y.rows, func(r tallied) bool { return r.refused == 0 })
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
				all = append(all, Offender{Key: string(row.key[:row.size]), Refused: row.refused, Doubt: row.doubt})
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
