package inventory

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/redistest"
)

// T-40: a rollback is run by two at once, again and again, and after the keys
// are deleted: the unit comes back once, and what is unknown is called so.
func TestStock_T40_ARollbackHappensOnceAlsoAfterTheKeysAreDeleted(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		ctx := t.Context()
		kept := newCaseArchive()
		v.store.archive = kept
		other := v.replicaOf(t, "binlog", func(c *Config, _ *redis.Options) { c.Archive = kept })
		sale := v.openSale(t, 50, shape)
		ann, bob, cid, dan := v.won(t, sale, "ann"), v.won(t, sale, "bob"), v.won(t, sale, "cid"), v.won(t, sale, "dan")
		_, err1 := v.store.Confirm(ctx, sale.ID, bob.ID, 1, "S-1")
		_, err2 := v.store.Confirm(ctx, sale.ID, dan.ID, 1, "S-2")
		must(t, errors.Join(err1, err2))
		must(t, other.Refresh(ctx))
		back := func(id string, want State) {
			t.Helper()
			parallel(t, 8, func(i int) error {
				r, err := []*Store{v.store, other}[i%2].Release(ctx, sale.ID, id, 0)
				if err == nil && r.State != want {
					err = fmt.Errorf("%s is %s", id, r.State)
				}
				return err
			})
		}
		back(ann.ID, Released)
		back(dan.ID, Returned)
		v.level(t, sale.ID, 48, 1, 1)
		checkInvariant(t, v.store, sale.ID)

		must(t, second(v.store.SetDesired(ctx, sale.ID, DesiredCancelled)))
		must(t, v.store.Cleanup(ctx, sale.ID)) // the other replica has not heard of it
		if left := stockKeys(t, v.client); len(left) > 0 {
			t.Fatal(left)
		}
		back(ann.ID, Released)
		back(bob.ID, Returned)
		back(dan.ID, Returned)
		back(cid.ID, Released)
		v.level(t, sale.ID, 50, 0, 0)
		for _, s := range []*Store{v.store, other} {
			if r, err := s.Release(ctx, sale.ID, NewOrderID(sale.ID, "x"), 0); !errors.Is(err, ErrUnknownReservation) {
				t.Errorf("an id that nobody had: %+v, %v", r, err)
			}
			if r, err := s.Release(ctx, "never", NewOrderID("never", "x"), 0); !errors.Is(err, ErrUnknownSale) {
				t.Errorf("a sale that never was: %+v, %v", r, err)
			}
		}
		if left := stockKeys(t, v.client); len(left) > 0 || len(kept.rows) != 4 {
			t.Errorf("written behind the end: %v, %d rows", left, len(kept.rows))
		}
	})
}

// T-40: the keys are gone and no archive has them.
func TestStock_T40_ARollbackOfALostStockSaysSoAndMakesNothingUp(t *testing.T) {
	eachShape(t, func(t *testing.T, v *env, shape func(*Sale)) {
		sale := v.openSale(t, 50, shape)
		ann := v.won(t, sale, "ann")
		for _, b := range v.buckets(sale.ID) {
			must(t, v.client.Unlink(t.Context(), b.keys()...).Err())
		}
		for range 2 {
			if r, err := v.store.Release(t.Context(), sale.ID, ann.ID, 1); !errors.Is(err, ErrUnknownSale) {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if left := stockKeys(t, v.client); len(left) > 0 {
			t.Fatalf("made up: %v", left)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestStock_H22_WhatDeadReplicasHeldIsFree(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.spreadSale(t, []int64{2, 0}, nil)
		e, err := v.store.entry(ctx, sale.ID)
		must(t, err)
		dead := v.another(t, "dead") // one of them had the lease, took a unit and died
		mine, err := dead.Lease(ctx, gatherJob(e), 50*time.Millisecond)
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		res, err := dead.Reserve(ctx, order(sale, homeUser(sale.ID, 2, 0, 0), 1))
		must(t, err)
		must(t, v.store.Refresh(ctx))
		if alive, err := v.store.Replicas(ctx); err != nil || !slices.Contains(alive, "dead") {
			t.Fatalf("%v, %v", alive, err)
		}
		v.passed(t, beatFor+time.Millisecond)
		eventually(t, "its lease is over", func() bool {
			mine, err := v.store.Lease(ctx, gatherJob(e), time.Second)
			return err == nil && mine
		})
		must(t, v.store.EndLease(ctx, gatherJob(e)))
		must(t, v.store.Refresh(ctx))
		beats := v.client.HGetAll(ctx, replicasKey()).Val()
		if _, ok := beats["dead"]; ok || len(beats) != 1 {
			t.Errorf("alive: %v", slices.Sorted(maps.Keys(beats)))
		}
		v.advance(t, sale.ID, sale.Hold)
		v.reserve(t, order(sale, homeUser(sale.ID, 2, 1, 0), 2), TakenLast) // with the dead one's unit
		r, err := v.store.Find(ctx, res.Reservation.ID)
		v.settled(t, sale, Expired, nil, r, err)
	})
}

// H-22, H-10: a gatherer that died leaves the lease of its sale behind, and a
// clock that is set back makes it last: the next jobs clear both away.
func TestStock_H22_TheLeaseOfADeadGathererGoesWithTheNextJob(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		dead := v.another(t, "dead")
		mine, err := dead.Lease(ctx, "gather gone", time.Millisecond)
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		ahead := v.redisNow(t).Add(time.Hour).UnixMilli() // given before the clock was set back
		must(t, v.client.HSet(ctx, leasesKey(), "gather set-back", fmt.Sprint(ahead, " dead")).Err())
		if mine, err := v.store.Lease(ctx, "gather set-back", time.Second); err != nil || !mine {
			t.Fatalf("nobody gathers for an hour: %t, %v", mine, err)
		}
		must(t, v.store.EndLease(ctx, "gather set-back"))
		v.passed(t, time.Second)
		eventually(t, "its lease is gone", func() bool {
			mine, err := v.store.Lease(ctx, "another", time.Second)
			must(t, errors.Join(err, v.store.EndLease(ctx, "another")))
			return mine && len(v.client.HGetAll(ctx, leasesKey()).Val()) == 0
		})
	})
}

// passed lets a time pass for the replicas that were heard of.
func (v *env) passed(t *testing.T, d time.Duration) {
	t.Helper()
	if v.mini != nil {
		v.now = v.now.Add(d)
		v.mini.SetTime(v.now)
		return
	}
	for name := range v.client.HGetAll(t.Context(), replicasKey()).Val() {
		must(t, v.client.HIncrBy(t.Context(), replicasKey(), name, -d.Milliseconds()).Err())
	}
}

// judgedTB is a test's mouth that only notes how it was stopped.
type judgedTB struct {
	testing.TB
	verdict string
}

func (j *judgedTB) Helper()      {}
func (j *judgedTB) Fatal(...any) { j.verdict = "failed"; runtime.Goexit() }
func (j *judgedTB) Skip(...any)  { j.verdict = "skipped"; runtime.Goexit() }

// H-24: miniredis forgives what Redis does not. The cases run on both, and where
// real ones are asked for, a missing server is a failure.
func TestStock_H24_TheCasesRunOnARealServerToo(t *testing.T) {
	ran := map[bool]int{}
	t.Run("each", func(t *testing.T) {
		eachRedis(t, func(_ *testing.T, v *env) { ran[v.real != nil]++ })
	})
	for name, start := range map[string]func(testing.TB){
		"the package's": func(t testing.TB) { startRedis(t) },
		"the kit's":     func(t testing.TB) { redistest.Single(t) },
	} {
		for required, want := range map[string]string{"1": "failed", "": "skipped"} {
			t.Run(name+" "+want, func(t *testing.T) {
				t.Setenv("PATH", t.TempDir())
				t.Setenv("WEIR_REQUIRE_REAL", required)
				j := &judgedTB{TB: t}
				done := make(chan struct{})
				go func() { defer close(done); start(j) }()
				if <-done; j.verdict != want {
					t.Errorf("without a redis-server: %q", j.verdict)
				}
			})
		}
	}
	if _, err := exec.LookPath("redis-server"); err == nil && (ran[false] != 1 || ran[true] != 1) {
		t.Errorf("ran on a real server %d times, on miniredis %d times", ran[true], ran[false])
	}
	for name, real := range casesOnReal(t) {
		if !real {
			t.Errorf("%s never meets a real server", name)
		}
	}
}

// casesOnReal tells of each case and model of this package whether it reaches,
// through whatever helpers, one that starts a real server.
func casesOnReal(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	calls, cases := map[string][]string{}, map[string][]string{}
	for _, file := range files {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		must(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			cases[fn.Name.Name] = namedCases(set, f, fn)
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name != fn.Name.Name {
					calls[fn.Name.Name] = append(calls[fn.Name.Name], id.Name)
				}
				return true
			})
		}
	}
	var reaches func(name string, seen map[string]bool) bool
	reaches = func(name string, seen map[string]bool) bool {
		if name == "startRedis" || name == "redistest" {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		return slices.ContainsFunc(calls[name], func(called string) bool { return reaches(called, seen) })
	}
	found := map[string]bool{}
	for name, all := range cases {
		for _, c := range all {
			found[c] = found[c] || reaches(name, map[string]bool{})
		}
	}
	if len(found) < 40 {
		t.Fatalf("only %d cases found", len(found))
	}
	t.Logf("%d cases", len(found))
	return found
}

// namedCases are the cases that a test has in its name or in what is said at its head.
func namedCases(set *token.FileSet, f *ast.File, fn *ast.FuncDecl) (all []string) {
	if !strings.HasPrefix(fn.Name.Name, "Test") {
		return nil
	}
	said := fn.Doc.Text() + " " + fn.Name.Name
	for _, c := range f.Comments {
		if set.Position(c.Pos()).Line == set.Position(fn.Pos()).Line {
			said += " " + c.Text()
		}
	}
	for _, m := range regexp.MustCompile(`(?:^|[ _,(])([HT])-?0?(\d+[a-z]?)(?:[^\d]|$)`).FindAllStringSubmatch(said, -1) {
		all = append(all, m[1]+"-"+m[2])
	}
	if strings.HasPrefix(fn.Name.Name, "TestModel") {
		all = append(all, fn.Name.Name)
	}
	return all
}
