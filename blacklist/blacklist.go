// Package blacklist knows who is shut out, why, and until when.
//
// The truth lies in Redis; every replica holds an immutable snapshot of it in
// memory, so a check costs no network, no lock and no allocation. A change on
// one replica acts on the others within two seconds: a published nudge makes
// it fast, a poll of the sequence number makes it certain. When Redis is away
// the last snapshot keeps acting. Expiry is judged at the check, by the clock
// given in Config, so an entry ends on time even when Redis is away.
package blacklist

import (
	"errors"
	"net/netip"
	"time"
)

// Scope is the kind of thing that an entry shuts out.
type Scope string

const (
	User   Scope = "user"   // a user id, in the shop's own spelling (case matters)
	Addr   Scope = "addr"   // one IPv4 or IPv6 address
	CIDR   Scope = "cidr"   // a network
	Device Scope = "device" // a device id
)

// Entry is one ban. Scope and Value together are its identity.
type Entry struct {
	Scope   Scope     `json:"scope"`
	Value   string    `json:"value"` // in the form that Canonical gives
	Reason  string    `json:"reason"`
	Author  string    `json:"author"` // who asked for it
	Origin  string    `json:"origin"` // by which way it came, e.g. "api"
	Created time.Time `json:"created"`
	Until   time.Time `json:"until,omitzero"` // first moment at which it no longer acts; zero = permanent
	Seq     int64     `json:"seq,omitempty"`  // number of the change that wrote it
}

// live says whether e acts at now.
func (e *Entry) live(now time.Time) bool {
	return e != nil && (e.Until.IsZero() || now.Before(e.Until))
}

// Query is one caller; empty fields are not looked up.
type Query struct {
	User   string
	Addr   netip.Addr
	Device string
}

// Status says how fresh a replica's snapshot is.
type Status struct {
	Seq        int64         `json:"seq"`        // last change that acts here
	Entries    int           `json:"entries"`    // in memory, expired ones not yet cleaned up included
	Unreadable int           `json:"unreadable"` // stored entries met since the last full reading that this version cannot read
	SyncedAt   time.Time     `json:"synced_at"`  // when the snapshot was last known to equal Redis
	Lag        time.Duration `json:"lag"`        // now - SyncedAt, in nanoseconds
}

var (
	// ErrInvalidEntry: the entry cannot be banned as written. The text names
	// the field and the value and may be shown to its author.
	ErrInvalidEntry = errors.New("invalid entry")
	// ErrTooMany: the list holds Config.MaxEntries already.
	ErrTooMany = errors.New("blacklist is full")
	// ErrUnavailable: Redis did not answer. A change may or may not have been
	// made; asking again is safe.
	ErrUnavailable = errors.New("blacklist store unavailable")
)
