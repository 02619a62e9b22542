package inventory

import (
	"slices"
	"sync"
	"time"
)

const (
	// recentFor is how long a replica remembers its wins, to tell them again to
	// a server that forgot them.
	recentFor = 30 * time.Second
	// maxRecent bounds them per bucket, about 300 bytes each. Beyond it the
	// oldest are forgotten first.
	maxRecent = 1 << 14
)

// recent is the ring of orders that this replica asked for lately, with what it
// last answered about those that won.
type recent struct {
	mu   sync.Mutex
	byID map[string]*memory
	ring []*memory // oldest first
}

type memory struct {
	at  int64 // ns of the store's clock
	id  string
	res Reservation // zero while its outcome is not known
}

// asked remembers that an order went out.
func (r *recent) asked(id string, now int64) { r.put(id, Reservation{}, now) }

// add remembers what was answered about an order.
func (r *recent) add(res Reservation, now int64) { r.put(res.ID, res, now) }

func (r *recent) put(id string, res Reservation, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]*memory{}
	}
	if m, ok := r.byID[id]; ok {
		if res.ID != "" {
			m.res = res
		}
		return
	}
	drop := 0
	for drop < len(r.ring) && (len(r.ring)-drop >= maxRecent || now-r.ring[drop].at > int64(recentFor)) {
		delete(r.byID, r.ring[drop].id)
		drop++
	}
	m := &memory{at: now, id: id, res: res}
	r.ring = append(r.ring[drop:], m)
	r.byID[id] = m
}

// settled notes a later state of a reservation that is remembered.
func (r *recent) settled(res Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.byID[res.ID]; ok {
		m.res = res
	}
}

func (r *recent) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.byID[id]
	return ok
}

// wins are the reservations that hold units, oldest first.
func (r *recent) wins(now int64) []Reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Reservation
	for _, m := range r.ring {
		if now-m.at <= int64(recentFor) && (m.res.State == Reserved || m.res.State == Confirmed) {
			all = append(all, m.res)
		}
	}
	return all
}

// untold are wins that a server must be told again and could not be told yet. They
// are kept until it took them, however long that takes; at most maxRecent.
type untold struct {
	mu   sync.Mutex
	wins []Reservation
}

func (u *untold) add(wins ...Reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := make(map[string]int, len(u.wins))
	for i, r := range u.wins {
		at[r.ID] = i
	}
	for _, r := range wins {
		if i, ok := at[r.ID]; ok {
			u.wins[i] = r
		} else if len(u.wins) < maxRecent {
			u.wins = append(u.wins, r)
		}
	}
}

func (u *untold) done(told map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wins = slices.DeleteFunc(u.wins, func(r Reservation) bool { return told[r.ID] })
}

func (u *untold) all() []Reservation {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.wins)
}

func (u *untold) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.wins) > 0
}
