package blacklist

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func fixedClock() time.Time { return start }

// clock stands until it is moved.
type clock struct{ ns atomic.Int64 }

func newClock() *clock                   { c := new(clock); c.ns.Store(start.UnixNano()); return c }
func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }
func (c *clock) in(config *Config)       { config.Now = c.now }

func must(t *testing.T, l *List, e Entry) Entry {
	t.Helper()
	got, err := l.Add(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestABanActsOnItsReplicaAtOnce(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		must(t, l, Entry{Scope: User, Value: "alice"})
		must(t, l, Entry{Scope: Device, Value: "d1"})
		must(t, l, Entry{Scope: Addr, Value: "2001:db8::1"})
		must(t, l, Entry{Scope: CIDR, Value: "1.2.3.0/24"})
		for _, c := range []struct {
			name string
			q    Query
			want Scope
		}{
			{"user", Query{User: "alice"}, User},
			{"user with spaces", Query{User: " alice "}, User},
			{"other case is another user", Query{User: "Alice"}, ""},
			{"device", Query{User: "bob", Device: "d1"}, Device},
			{"a user is not a device", Query{User: "d1"}, ""},
			{"address", Query{Addr: netip.MustParseAddr("2001:db8::1")}, Addr},
			{"address with zone", Query{Addr: netip.MustParseAddr("2001:db8::1%eth0")}, Addr},
			{"neighbour address", Query{Addr: netip.MustParseAddr("2001:db8::2")}, ""},
			{"network", Query{Addr: netip.MustParseAddr("1.2.3.4")}, CIDR},
			{"mapped address in network", Query{Addr: netip.MustParseAddr("::ffff:1.2.3.4")}, CIDR},
			{"mapped hex address in network", Query{Addr: netip.MustParseAddr("::ffff:102:304")}, CIDR},
			{"next network", Query{Addr: netip.MustParseAddr("1.2.4.4")}, ""},
			{"nothing", Query{}, ""},
		} {
			e, hit := l.Check(c.q)
			if hit != (c.want != "") || e.Scope != c.want {
				t.Errorf("%s: %v %v, want %q", c.name, e, hit, c.want)
			}
		}
		if _, hit := l.CheckAddr(netip.MustParseAddr("::ffff:1.2.3.4")); !hit {
			t.Error("CheckAddr misses a mapped address")
		}
		if _, hit := l.CheckAddr(netip.Addr{}); hit {
			t.Error("CheckAddr hits no address")
		}
	})
}

func TestAnUnbanActsAtOnceAndOnlyOnItsOwnEntry(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		must(t, l, Entry{Scope: Addr, Value: "1.2.3.4", Reason: "bot"})
		must(t, l, Entry{Scope: CIDR, Value: "1.2.3.4/32"})
		must(t, l, Entry{Scope: User, Value: "alice"})

		gone, ok, err := l.Remove(t.Context(), Addr, "::ffff:1.2.3.4")
		if err != nil || !ok || gone.Reason != "bot" {
			t.Fatalf("Remove: %+v %v %v", gone, ok, err)
		}
		if e, hit := l.CheckAddr(netip.MustParseAddr("1.2.3.4")); !hit || e.Scope != CIDR {
			t.Errorf("the network of one address went with the address: %+v", e)
		}
		if _, ok, err := l.Remove(t.Context(), Addr, "1.2.3.4"); ok || err != nil {
			t.Errorf("second Remove: %v %v", ok, err)
		}
		l.Remove(t.Context(), CIDR, "1.2.3.4/32")
		l.Remove(t.Context(), User, "alice")
		if got := l.Entries(); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
		if s := l.Status(); s.Entries != 0 || s.Seq != 6 {
			t.Errorf("status %+v", s)
		}
		if n := dial().HLen(t.Context(), entriesKey()).Val(); n != 0 {
			t.Errorf("%d left in Redis", n)
		}
	})
}

func TestAddReplacesTheEntryOfTheSameValue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		time := newClock()
		l := newList(t, dial(), time.in)
		must(t, l, Entry{Scope: Addr, Value: "1.2.3.4", Reason: "first"})
		second := must(t, l, Entry{Scope: Addr, Value: "::ffff:1.2.3.4", Reason: "second",
			Author: "eve", Origin: "api", Until: start.Add(3600e9)})
		want := Entry{Scope: Addr, Value: "1.2.3.4", Reason: "second", Author: "eve", Origin: "api",
			Created: start, Until: start.Add(3600e9), Seq: 2}
		if diff := gocmp(want, second); diff != "" {
			t.Error(diff)
		}
		other := newList(t, dial(), time.in)
		if diff := gocmp([]Entry{want}, other.Entries()); diff != "" {
			t.Errorf("as another replica reads it: %s", diff)
		}
	})
}

func gocmp(want, got any) string { return cmp.Diff(want, got) }

func TestAnEntryEndsOnTimeWithoutAnyEvent(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		clock := newClock()
		l := newList(t, dial(), clock.in)
		a := netip.MustParseAddr("1.2.3.4")
		must(t, l, Entry{Scope: User, Value: "alice", Until: start.Add(time.Minute)})
		must(t, l, Entry{Scope: Addr, Value: "1.2.3.4", Until: start.Add(time.Minute)})
		must(t, l, Entry{Scope: CIDR, Value: "1.2.0.0/16", Until: start.Add(time.Hour)})

		clock.advance(time.Minute - time.Millisecond)
		if e, _ := l.CheckAddr(a); e.Scope != Addr {
			t.Errorf("the narrowest must answer: %+v", e)
		}
		clock.advance(time.Millisecond)
		if _, hit := l.Check(Query{User: "alice"}); hit {
			t.Error("alice is banned past her time")
		}
		if e, hit := l.CheckAddr(a); !hit || e.Scope != CIDR {
			t.Errorf("the wider network must act on: %+v %v", e, hit)
		}
		if all, _ := l.Explain(Addr, "1.2.3.4"); len(all) != 1 {
			t.Errorf("Explain shows expired entries: %v", all)
		}
		if _, ok, _ := l.Remove(t.Context(), User, "alice"); ok {
			t.Error("an ended ban was lifted")
		}
		clock.advance(time.Hour)
		if _, hit := l.CheckAddr(a); hit || len(l.Entries()) != 0 {
			t.Error("entries act past their time")
		}
	})
}

func TestExplainNamesEveryEntryThatHoldsTheValue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		for _, v := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"} {
			must(t, l, Entry{Scope: CIDR, Value: v})
		}
		must(t, l, Entry{Scope: Addr, Value: "10.1.1.1"})
		must(t, l, Entry{Scope: User, Value: "alice"})
		for _, c := range []struct {
			scope Scope
			value string
			want  string
		}{
			{Addr, "::ffff:10.1.1.1", "10.1.1.1 10.1.0.0/16 10.0.0.0/8"},
			{Addr, "10.9.9.9", "10.0.0.0/8"},
			{CIDR, "10.1.7.0/24", "10.1.0.0/16 10.0.0.0/8"},
			{Addr, "11.0.0.1", ""},
			{User, "alice", "alice"},
			{User, "bob", ""},
			{Device, "alice", ""},
		} {
			all, err := l.Explain(c.scope, c.value)
			var got []string
			for _, e := range all {
				got = append(got, e.Value)
			}
			if s := strings.Join(got, " "); err != nil || s != c.want {
				t.Errorf("Explain(%s, %s) = %q, %v; want %q", c.scope, c.value, s, err, c.want)
			}
		}
		if _, err := l.Explain(Addr, "nonsense"); !errors.Is(err, ErrInvalidEntry) {
			t.Errorf("nonsense: %v", err)
		}
	})
}

func TestEntriesAreSorted(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		for _, v := range []string{"10.0.0.1", "9.0.0.1", "::1"} {
			must(t, l, Entry{Scope: Addr, Value: v})
		}
		for _, v := range []string{"b", "a"} {
			must(t, l, Entry{Scope: User, Value: v})
		}
		must(t, l, Entry{Scope: CIDR, Value: "10.0.0.0/8"})
		var got []string
		for _, e := range l.Entries() {
			got = append(got, e.Value)
		}
		if s := strings.Join(got, " "); s != "9.0.0.1 10.0.0.1 ::1 10.0.0.0/8 a b" {
			t.Error(s)
		}
	})
}

func TestAddRefusesBadEntries(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial(), newClock().in)
		good := Entry{Scope: User, Value: "alice"}
		for name, change := range map[string]func(*Entry){
			"everybody":        func(e *Entry) { e.Scope, e.Value = CIDR, "0.0.0.0/0" },
			"unknown scope":    func(e *Entry) { e.Scope = "planet" },
			"ended already":    func(e *Entry) { e.Until = start },
			"control byte":     func(e *Entry) { e.Reason = "a\x00" },
			"long reason":      func(e *Entry) { e.Reason = strings.Repeat("x", 513) },
			"invisible author": func(e *Entry) { e.Author = "\u202e" },
			"long origin":      func(e *Entry) { e.Origin = strings.Repeat("x", 65) },
		} {
			e := good
			change(&e)
			if _, err := l.Add(t.Context(), e); !errors.Is(err, ErrInvalidEntry) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s := l.Status(); s.Seq != 0 {
			t.Errorf("a refused entry was written: %+v", s)
		}
	})
}

func TestAFullListRefusesNewEntriesOnly(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial(), func(c *Config) { c.MaxEntries = 2 })
		must(t, l, Entry{Scope: User, Value: "a"})
		must(t, l, Entry{Scope: User, Value: "b"})
		if _, err := l.Add(t.Context(), Entry{Scope: User, Value: "c"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("third: %v", err)
		}
		must(t, l, Entry{Scope: User, Value: "a", Reason: "again"})
		l.Remove(t.Context(), User, "b")
		must(t, l, Entry{Scope: User, Value: "c"})
	})
}

func TestEntryIsSnakeCaseJSONWithoutAnEndWhenPermanent(t *testing.T) {
	text, err := json.Marshal(Entry{Scope: User, Value: "a", Created: start})
	want := `{"scope":"user","value":"a","reason":"","author":"","origin":"","created":"2030-01-02T03:04:05Z"}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestACheckCostsNoAllocation(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		must(t, l, Entry{Scope: CIDR, Value: "1.2.3.0/24"})
		must(t, l, Entry{Scope: User, Value: "alice"})
		a := netip.MustParseAddr("::ffff:1.2.3.4")
		q := Query{User: "bob", Device: "d", Addr: netip.MustParseAddr("9.9.9.9")}
		if n := testing.AllocsPerRun(200, func() { l.CheckAddr(a); l.Check(q) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestNewRefusesImpossibleConfigs(t *testing.T) {
	c := client(t, &redis.Options{Addr: "127.0.0.1:1"})
	for name, config := range map[string]Config{
		"no redis":        {},
		"slow poll":       {Redis: c, Poll: 2 * time.Second},
		"negative poll":   {Redis: c, Poll: -1},
		"negative bounds": {Redis: c, MaxEntries: -1},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
