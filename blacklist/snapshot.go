package blacklist

import (
	"hash/maphash"
	"iter"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/gaissmai/bart"
)

// shards of the name maps. A change copies one shard, not the whole map: with
// a million names about 4 000 of them.
const shards = 256

// names is an immutable map from a user or device id to its entry.
type names [shards]map[string]*Entry

// spot is what a prefix may carry: a single address has the prefix of full
// length, and "1.2.3.4" and "1.2.3.4/32" are two entries.
type spot struct{ addr, cidr *Entry }

// live gives the narrower entry first.
func (s *spot) live(now time.Time) *Entry {
	if s.addr.live(now) {
		return s.addr
	}
	if s.cidr.live(now) {
		return s.cidr
	}
	return nil
}

// snapshot is the whole list at one mark. It is never changed once published;
// readers need no lock.
type snapshot struct {
	mark
	hash    maphash.Seed
	nets    *bart.Table[*spot]
	users   *names
	devices *names
	size    int
	broken  int
}

func emptySnapshot() *snapshot {
	return &snapshot{hash: maphash.MakeSeed(), nets: new(bart.Table[*spot]), users: new(names), devices: new(names)}
}

func (s *snapshot) shard(value string) int { return int(maphash.String(s.hash, value) % shards) }

// checkAddr expects a bare address. The longest match answers, unless it has
// expired and a wider one still acts.
func (s *snapshot) checkAddr(a netip.Addr, now time.Time) *Entry {
	hit, ok := s.nets.Lookup(a)
	if !ok {
		return nil
	}
	if e := hit.live(now); e != nil {
		return e
	}
	return s.widerThan(a, now)
}

func (s *snapshot) widerThan(a netip.Addr, now time.Time) *Entry {
	for _, hit := range s.nets.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		if e := hit.live(now); e != nil {
			return e
		}
	}
	return nil
}

func (s *snapshot) checkName(in *names, value string, now time.Time) *Entry {
	if e := in[s.shard(value)][value]; e.live(now) {
		return e
	}
	return nil
}

// covering gives every entry whose network holds p, narrowest first.
func (s *snapshot) covering(p netip.Prefix) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, hit := range s.nets.Supernets(p) {
			for _, e := range []*Entry{hit.addr, hit.cidr} {
				if e != nil && !yield(e) {
					return
				}
			}
		}
	}
}

// entries walks all, in no order, expired ones included.
func (s *snapshot) entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, hit := range s.nets.All() {
			for _, e := range []*Entry{hit.addr, hit.cidr} {
				if e != nil && !yield(e) {
					return
				}
			}
		}
		for _, set := range []*names{s.users, s.devices} {
			for _, shard := range set {
				for _, e := range shard {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// find gives the entry of exactly this name, or nil.
func (s *snapshot) find(scope Scope, value string) *Entry {
	switch scope {
	case User:
		return s.users[s.shard(value)][value]
	case Device:
		return s.devices[s.shard(value)][value]
	}
	p, ok := prefixOf(scope, value)
	if !ok {
		return nil
	}
	hit, ok := s.nets.Get(p)
	if !ok {
		return nil
	}
	if scope == Addr {
		return hit.addr
	}
	return hit.cidr
}

// prefixOf reads a canonical address or network.
func prefixOf(scope Scope, value string) (netip.Prefix, bool) {
	switch scope {
	case Addr:
		a, err := netip.ParseAddr(value)
		return netip.PrefixFrom(a, a.BitLen()), err == nil
	case CIDR:
		p, err := netip.ParsePrefix(value)
		return p, err == nil
	}
	return netip.Prefix{}, false
}

// draft is a snapshot in the making: a copy that shares what it does not change.
type draft struct {
	snapshot
	fresh bool // nothing is shared yet: change in place
	owned [2][shards]bool
}

// edit starts a copy of s.
func (s *snapshot) edit() *draft {
	d := &draft{snapshot: *s}
	users, devices := *s.users, *s.devices
	d.users, d.devices = &users, &devices
	return d
}

// newDraft starts an empty one; see draft.fresh.
func newDraft() *draft { return &draft{snapshot: *emptySnapshot(), fresh: true} }

// apply takes one change, unless the entry it speaks of is newer: a scan may
// have seen what a later change of the stream wrote.
func (d *draft) apply(c change) {
	if c.broken {
		d.broken++ // what acted under this name goes on acting
		return
	}
	name, value, _ := strings.Cut(c.field, ":")
	scope := Scope(name)
	if old := d.find(scope, value); old != nil && old.Seq > c.seq {
		return
	}
	d.store(scope, value, c.entry)
}

// store sets the entry of a canonical name, or drops it when e is nil.
func (d *draft) store(scope Scope, value string, e *Entry) {
	old := d.find(scope, value)
	if old != nil {
		d.size--
	}
	if e != nil {
		d.size++
	}
	if old == nil && e == nil {
		return
	}
	switch scope {
	case User:
		d.storeName(d.users, 0, value, e)
	case Device:
		d.storeName(d.devices, 1, value, e)
	case Addr, CIDR:
		d.storeNet(scope, value, e)
	}
}

func (d *draft) storeName(in *names, set int, value string, e *Entry) {
	i := d.shard(value)
	if !d.fresh && !d.owned[set][i] {
		in[i] = maps.Clone(in[i])
		d.owned[set][i] = true
	}
	if e == nil {
		delete(in[i], value)
		return
	}
	if in[i] == nil {
		in[i] = make(map[string]*Entry)
	}
	in[i][value] = e
}

func (d *draft) storeNet(scope Scope, value string, e *Entry) {
	p, ok := prefixOf(scope, value)
	if !ok {
		return
	}
	var s spot
	if old, ok := d.nets.Get(p); ok {
		s = *old
	}
	if scope == Addr {
		s.addr = e
	} else {
		s.cidr = e
	}
	switch gone := s.addr == nil && s.cidr == nil; {
	case gone && d.fresh:
		d.nets.Delete(p)
	case gone:
		d.nets = d.nets.DeletePersist(p)
	case d.fresh:
		d.nets.Insert(p, &s)
	default:
		d.nets = d.nets.InsertPersist(p, &s)
	}
}
