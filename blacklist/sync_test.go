package blacklist

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

const promised = 2 * time.Second

func bans(l *List, user string) bool { _, hit := l.Check(Query{User: user}); return hit }

func TestABanOnOneReplicaActsOnTheOther(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := newList(t, dial()), newList(t, dial())
		run(t, one)
		run(t, two)
		must(t, one, Entry{Scope: User, Value: "alice"})
		eventually(t, promised, "alice is banned on the other", func() bool { return bans(two, "alice") })
		must(t, two, Entry{Scope: CIDR, Value: "1.2.3.0/24"})
		eventually(t, promised, "the network is banned on the first", func() bool {
			_, hit := one.CheckAddr(netip.MustParseAddr("1.2.3.4"))
			return hit
		})
		two.Remove(t.Context(), User, "alice")
		eventually(t, promised, "alice is free again", func() bool { return !bans(one, "alice") })
	})
}

func TestTheNudgeAloneIsEnough(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := newList(t, dial()), newList(t, dial())
		two.poll = time.Hour
		run(t, two)
		watch := dial()
		eventually(t, promised, "the other listens", func() bool {
			return watch.PubSubNumSub(t.Context(), nudgeChannel()).Val()[nudgeChannel()] == 1
		})
		must(t, one, Entry{Scope: User, Value: "alice"})
		eventually(t, promised, "alice is banned on the other", func() bool { return bans(two, "alice") })
	})
}

func TestALostNudgeIsCaughtByThePoll(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		run(t, l)
		putUnheard(t, newStore(dial()), Entry{Scope: User, Value: "alice"})
		eventually(t, promised, "alice is banned", func() bool { return bans(l, "alice") })
	})
}

// putUnheard writes an entry whose nudge nobody hears.
func putUnheard(t *testing.T, s store, e Entry) {
	t.Helper()
	text := fmt.Sprintf(`{"scope":%q,"value":%q,"created":"2030-01-02T03:04:05Z"}`, e.Scope, e.Value)
	err := s.put.Run(t.Context(), s.redis, s.keys(), fieldOf(e.Scope, e.Value), text, 0,
		100_000, keptChanges, "nowhere", "epoch").Err()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhenRedisIsAwayTheLastSnapshotStays(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		c := dial()
		away := breakable(c)
		clock := newClock()
		l := newList(t, c, clock.in)
		must(t, l, Entry{Scope: User, Value: "alice"})
		away.before.Store(true)
		clock.advance(time.Minute)
		if err := l.pull(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("pull: %v", err)
		}
		if err := l.Load(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Load: %v", err)
		}
		if !bans(l, "alice") {
			t.Error("alice got in while Redis was away")
		}
		if s := l.Status(); s.Lag != time.Minute {
			t.Errorf("lag %s", s.Lag)
		}
		if _, err := l.Add(t.Context(), Entry{Scope: User, Value: "bob"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Add: %v", err)
		}
		if _, _, err := l.Remove(t.Context(), User, "alice"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Remove: %v", err)
		}
		away.before.Store(false)
		if err := l.pull(t.Context()); err != nil || l.Status().Lag != 0 {
			t.Errorf("after its return: %v, %+v", err, l.Status())
		}
		if bans(l, "bob") || !bans(l, "alice") {
			t.Error("what was not sent must not act")
		}
	})
}

func TestAChangeWhoseAnswerWasLostArrivesByThePoll(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		c := dial()
		lost := breakable(c)
		l := newList(t, c)
		warm(t, l)
		lost.after.Store(true)
		if _, err := l.Add(t.Context(), Entry{Scope: User, Value: "alice"}); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Add: %v", err)
		}
		lost.after.Store(false)
		if err := l.pull(t.Context()); err != nil || !bans(l, "alice") {
			t.Fatalf("the applied ban does not act: %v", err)
		}
		lost.after.Store(true)
		if _, _, err := l.Remove(t.Context(), User, "alice"); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Remove: %v", err)
		}
		lost.after.Store(false)
		if err := l.pull(t.Context()); err != nil || bans(l, "alice") {
			t.Fatalf("the lifted ban acts on: %v", err)
		}
	})
}

// warm loads the scripts, so that a fault hits their execution.
func warm(t *testing.T, l *List) {
	must(t, l, Entry{Scope: User, Value: "warm"})
	if _, _, err := l.Remove(t.Context(), User, "warm"); err != nil {
		t.Fatal(err)
	}
}

func TestAGapInTheChangesReloadsTheWholeList(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := newList(t, dial()), newList(t, dial())
		must(t, one, Entry{Scope: User, Value: "alice"})
		if err := two.pull(t.Context()); err != nil || !bans(two, "alice") {
			t.Fatal("no common start", err)
		}
		one.Remove(t.Context(), User, "alice")
		must(t, one, Entry{Scope: User, Value: "bob"})
		must(t, one, Entry{Scope: User, Value: "carol"})
		if err := dial().XTrimMaxLen(t.Context(), changesKey(), 1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := two.pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		if bans(two, "alice") || !bans(two, "bob") || !bans(two, "carol") || two.Status().Seq != 4 {
			t.Errorf("%v %+v", two.Entries(), two.Status())
		}
	})
}

func TestAnEmptyStreamOfChangesIsAGapToo(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := newList(t, dial()), newList(t, dial())
		must(t, one, Entry{Scope: User, Value: "alice"})
		dial().Del(t.Context(), changesKey())
		if err := two.pull(t.Context()); err != nil || !bans(two, "alice") {
			t.Errorf("%v %v", err, two.Entries())
		}
	})
}

func TestAListThatWasReplacedInRedisIsReadAnew(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := newList(t, dial()), newList(t, dial())
		must(t, one, Entry{Scope: User, Value: "alice"})
		if err := two.pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := dial().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		three := newList(t, dial())
		for _, v := range []string{"x", "y", "z"} { // further than the others ever were
			must(t, three, Entry{Scope: User, Value: v})
		}
		if err := two.pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		if bans(two, "alice") || !bans(two, "x") || !bans(two, "z") {
			t.Errorf("%v", two.Entries())
		}
		must(t, one, Entry{Scope: User, Value: "w"})
		if len(one.Entries()) != 4 {
			t.Errorf("the writer kept the old list: %v", one.Entries())
		}
	})
}

func TestABrokenReadingNeverReplacesTheList(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		c := dial()
		l := newList(t, c)
		must(t, l, Entry{Scope: User, Value: "alice"})
		c.AddHook(failOn{"hscan"})
		if err := l.Load(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Load: %v", err)
		}
		if !bans(l, "alice") {
			t.Error("a cut reading emptied the list")
		}
	})
}

func TestAnUnreadableEntryIsCountedAndHidesNoOther(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		l := newList(t, dial())
		must(t, l, Entry{Scope: User, Value: "alice"})
		for field, text := range map[string]string{
			"user:x":    "no seq",
			"user:y":    "7:{",
			"user:z":    `8:{"scope":"user","value":"other"}`,
			"allow:q":   `9:{"scope":"allow","value":"q"}`,
			"cidr:::/0": `9:{"scope":"cidr","value":"::/0"}`,
		} {
			dial().HSet(t.Context(), entriesKey(), field, text)
		}
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := l.Status(); s.Unreadable != 5 || s.Entries != 1 || !bans(l, "alice") {
			t.Errorf("%+v", s)
		}
		putUnheard(t, newStore(dial()), Entry{Scope: "later", Value: "v"})
		if err := l.pull(t.Context()); err != nil || l.Status().Unreadable != 6 {
			t.Errorf("%v %+v", err, l.Status())
		}
	})
}

func TestTheCleanupGivesMemoryBackAndSparesTheLiving(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		clock := newClock() // far from Redis TIME: entries of its past are long over there
		clock.ns.Store(time.Now().Add(-24 * time.Hour).UnixNano())
		l := newList(t, dial(), clock.in)
		for i := range 20 {
			must(t, l, Entry{Scope: User, Value: fmt.Sprint("old", i), Until: clock.now().Add(time.Hour)})
		}
		must(t, l, Entry{Scope: User, Value: "new", Until: clock.now().Add(48 * time.Hour)})
		must(t, l, Entry{Scope: User, Value: "permanent"})
		n, err := l.store.clean(t.Context(), 15, sweepGrace)
		if err != nil || n != 15 {
			t.Fatalf("clean: %d %v", n, err)
		}
		l.sweep(t.Context())
		if err := l.pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := l.Status(); s.Entries != 2 || !bans(l, "new") || !bans(l, "permanent") {
			t.Errorf("%+v", s)
		}
		left := dial().HLen(t.Context(), entriesKey()).Val() + dial().ZCard(t.Context(), expiryKey()).Val()
		if left != 3 {
			t.Errorf("%d left in Redis, want two entries and one end", left)
		}
	})
}

func TestRunStopsWithoutLeavingAnything(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		c := dial()
		l := newList(t, c)
		ignore := goleak.IgnoreCurrent()
		t.Run("run", func(t *testing.T) { run(t, l) })
		c.Close()
		goleak.VerifyNone(t, ignore)
	})
}

// Two replicas and random changes: after a catch-up both equal a plain map.
func TestReplicasConvergeOnTheSameList(t *testing.T) {
	onEachRedis(t, func(t *testing.T, dial func() *redis.Client) {
		one, two := dial(), dial()
		rapid.Check(t, func(r *rapid.T) {
			if err := one.FlushAll(t.Context()).Err(); err != nil {
				r.Fatal(err)
			}
			lists := []*List{newList(t, one), newList(t, two)}
			model := map[string]bool{}
			values := map[Scope][]string{User: {"a", "b"}, Device: {"a"}, Addr: {"1.2.3.4", "::1"},
				CIDR: {"1.2.3.4/32", "1.2.0.0/16"}}
			for range rapid.IntRange(1, 25).Draw(r, "steps") {
				l := lists[rapid.IntRange(0, 1).Draw(r, "replica")]
				scope := rapid.SampledFrom([]Scope{User, Device, Addr, CIDR}).Draw(r, "scope")
				value := rapid.SampledFrom(values[scope]).Draw(r, "value")
				switch rapid.IntRange(0, 3).Draw(r, "act") {
				case 0, 1:
					if _, err := l.Add(t.Context(), Entry{Scope: scope, Value: value}); err != nil {
						r.Fatal(err)
					}
					model[fieldOf(scope, value)] = true
				case 2:
					_, ok, err := l.Remove(t.Context(), scope, value)
					if err != nil || ok != model[fieldOf(scope, value)] {
						r.Fatalf("Remove %s %s: %v %v", scope, value, ok, err)
					}
					delete(model, fieldOf(scope, value))
				case 3:
					one.XTrimMaxLen(t.Context(), changesKey(), 1)
				}
			}
			for _, l := range lists {
				if err := l.pull(t.Context()); err != nil {
					r.Fatal(err)
				}
				got := l.Entries()
				for _, e := range got {
					if !model[fieldOf(e.Scope, e.Value)] {
						r.Fatalf("%s %s is banned and should not be", e.Scope, e.Value)
					}
				}
				if len(got) != len(model) || l.Status().Entries != len(model) {
					r.Fatalf("%d entries, size %d, want %d", len(got), l.Status().Entries, len(model))
				}
			}
		})
	})
}
