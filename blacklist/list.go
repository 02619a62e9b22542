package blacklist

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"golang.org/x/text/unicode/norm"
)

// Config of a List. Only Redis is required.
type Config struct {
	Redis redis.UniversalClient
	Now   func() time.Time // the clock that ends entries; default time.Now
	Log   *slog.Logger     // default: none
	// Poll is how often the sequence is asked for; it bounds how late a change
	// acts when the published nudge is lost. Default 500 ms, at most 1 s.
	Poll time.Duration
	// MaxEntries bounds the list, here and in Redis (about 0.5 KB each in
	// both). Default 1 000 000.
	MaxEntries int
}

// List is one replica's blacklist. Checks read an immutable snapshot: they are
// safe from any goroutine and see a change either wholly or not at all. It is
// not a limiter and keeps no counts.
type List struct {
	store  store
	now    func() time.Time
	log    *slog.Logger
	poll   time.Duration
	most   int
	epoch  string // offered when this replica writes the very first entry
	view   atomic.Pointer[snapshot]
	synced atomic.Int64 // Unix ns by now; 0 = never
	stale  atomic.Bool  // the last sync failed: log the first failure only
	mu     sync.Mutex   // one writer of view at a time
}

// New makes an empty List; Load fills it.
func New(c Config) (*List, error) {
	if c.Redis == nil {
		return nil, errors.New("blacklist: no Redis client")
	}
	if c.Poll < 0 || c.Poll > time.Second {
		return nil, fmt.Errorf("blacklist: poll %s is not within 0 and 1s", c.Poll)
	}
	if c.MaxEntries < 0 {
		return nil, fmt.Errorf("blacklist: max entries %d is negative", c.MaxEntries)
	}
	l := &List{
		store: newStore(c.Redis),
		now:   c.Now,
		log:   c.Log,
		poll:  cmp.Or(c.Poll, 500*time.Millisecond),
		most:  cmp.Or(c.MaxEntries, 1_000_000),
		epoch: rand.Text(),
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.view.Store(emptySnapshot())
	return l, nil
}

// CheckAddr says whether an address is shut out, by itself or by its network.
// It reads memory only, takes no lock and allocates nothing. The narrowest
// entry that still acts answers.
func (l *List) CheckAddr(a netip.Addr) (Entry, bool) {
	return found(l.view.Load().checkAddr(bare(a), l.now()))
}

// Check looks at the user, the device and the address, in that order, and
// gives the first entry that acts. Memory only, no lock; it allocates only for
// a name that is not NFC.
func (l *List) Check(q Query) (Entry, bool) {
	view, now := l.view.Load(), l.now()
	if q.User != "" {
		if e := view.checkName(view.users, spelled(q.User), now); e != nil {
			return *e, true
		}
	}
	if q.Device != "" {
		if e := view.checkName(view.devices, spelled(q.Device), now); e != nil {
			return *e, true
		}
	}
	return found(view.checkAddr(bare(q.Addr), now))
}

func found(e *Entry) (Entry, bool) {
	if e == nil {
		return Entry{}, false
	}
	return *e, true
}

// spelled is Canonical for a name that may be looked up without being fit to
// be banned: what Canonical refuses is on no list.
func spelled(name string) string { return norm.NFC.String(strings.TrimSpace(name)) }

// Add bans. It canonicalises the value, replaces an entry of the same scope
// and value, and acts on this replica before it returns. The entry comes back
// as stored, with Created and Seq set.
//
// ErrInvalidEntry (nothing done), ErrTooMany (nothing done), ErrUnavailable
// (unknown whether done; Add again).
func (l *List) Add(ctx context.Context, e Entry) (Entry, error) {
	e, err := l.checked(e)
	if err != nil {
		return Entry{}, err
	}
	m, err := l.store.write(ctx, e, l.most, l.epoch)
	if err != nil {
		return Entry{}, err
	}
	e.Seq = m.seq
	l.own(ctx, m, change{seq: m.seq, field: fieldOf(e.Scope, e.Value), entry: &e})
	return e, nil
}

// checked is e as it will be stored, in whole milliseconds and UTC.
func (l *List) checked(e Entry) (Entry, error) {
	value, err := Canonical(e.Scope, e.Value)
	if err != nil {
		return Entry{}, err
	}
	for _, t := range []struct {
		field, text string
		most        int
	}{{"reason", e.Reason, 512}, {"author", e.Author, 128}, {"origin", e.Origin, 64}} {
		if err := checkText(t.field, t.text, t.most); err != nil {
			return Entry{}, err
		}
	}
	now := l.now()
	e.Value, e.Seq = value, 0
	e.Created = now.UTC().Truncate(time.Millisecond)
	if e.Until.IsZero() {
		return e, nil
	}
	e.Until = e.Until.UTC().Truncate(time.Millisecond)
	if !e.Until.After(now) {
		return Entry{}, invalid("until", e.Until.Format(time.RFC3339Nano), "has passed")
	}
	return e, nil
}

func checkText(field, text string, most int) error {
	if len(text) > most {
		return invalid(field, shorten(text), fmt.Sprintf("is longer than %d bytes", most))
	}
	if !utf8.ValidString(text) {
		return invalid(field, text, "is not UTF-8")
	}
	if r, found := hidden(text); found {
		return invalid(field, text, fmt.Sprintf("holds the control or invisible character %U", r))
	}
	return nil
}

// Remove lifts the ban of exactly this scope and value and returns it. False
// when there was none that still acts. An address stays shut out when a
// network holds it; Explain tells. Errors as for Add.
func (l *List) Remove(ctx context.Context, scope Scope, value string) (Entry, bool, error) {
	value, err := Canonical(scope, value)
	if err != nil {
		return Entry{}, false, err
	}
	field := fieldOf(scope, value)
	m, old, ok, err := l.store.take(ctx, field)
	if err != nil || !ok {
		return Entry{}, false, err
	}
	l.own(ctx, m, change{seq: m.seq, field: field})
	if !old.entry.live(l.now()) {
		return Entry{}, false, nil
	}
	return *old.entry, true, nil
}

// Entries lists all that act now, by scope and value: addresses and networks
// in numeric order.
func (l *List) Entries() []Entry {
	view, now := l.view.Load(), l.now()
	all := make([]Entry, 0, view.size)
	for e := range view.entries() {
		if e.live(now) {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b Entry) int {
	if c := cmp.Compare(a.Scope, b.Scope); c != 0 {
		return c
	}
	p, ok := prefixOf(a.Scope, a.Value)
	if q, both := prefixOf(b.Scope, b.Value); ok && both {
		return cmp.Or(p.Addr().Compare(q.Addr()), cmp.Compare(p.Bits(), q.Bits()))
	}
	return cmp.Compare(a.Value, b.Value)
}

// Explain gives every entry that acts on the value now: for an address or a
// network all that hold it, narrowest first; for a name at most one.
// ErrInvalidEntry when the value cannot be on a list.
func (l *List) Explain(scope Scope, value string) ([]Entry, error) {
	value, err := Canonical(scope, value)
	if err != nil {
		return nil, err
	}
	view, now := l.view.Load(), l.now()
	var all []Entry
	p, ok := prefixOf(scope, value)
	if !ok {
		if e := view.find(scope, value); e.live(now) {
			all = append(all, *e)
		}
		return all, nil
	}
	for e := range view.covering(p) {
		if e.live(now) {
			all = append(all, *e)
		}
	}
	return all, nil
}

// Status reads memory only.
func (l *List) Status() Status {
	view := l.view.Load()
	s := Status{Seq: view.seq, Entries: view.size, Unreadable: view.broken}
	if ns := l.synced.Load(); ns != 0 {
		s.SyncedAt = time.Unix(0, ns).UTC()
		s.Lag = max(0, l.now().Sub(s.SyncedAt))
	}
	return s
}
