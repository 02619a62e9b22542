package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func newDrafts(t testing.TB, s *Store) *Drafts {
	t.Helper()
	d, err := NewDrafts(s)
	must(t, err)
	return d
}

// draftPlan is a plan that starts in an hour.
func (v *env) draftPlan(t testing.TB, id string) Sale {
	p := planned()
	p.ID, p.Item, p.Version = id, "item-"+id, 1
	p.StartAt, p.EndAt = v.redisNow(t).Add(time.Hour), v.redisNow(t).Add(2*time.Hour)
	return p
}

func TestDraft_FromFirstPlanToPreheatToEditToPreheat(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, d, plan := t.Context(), newDrafts(t, v.store), v.draftPlan(t, "a")
		first, err := d.Create(ctx, plan)
		must(t, err)
		if first.Plan.Version != 1 || !first.Waiting || first.Preheated != 0 {
			t.Fatalf("%+v", first)
		}
		plan.Total = 77
		second, err := d.Replace(ctx, plan, []string{first.Tag()})
		must(t, err)
		if second.Plan.Version != 2 || second.Tag() == first.Tag() {
			t.Fatalf("%+v", second)
		}
		found, err := d.Find(ctx, "a")
		must(t, err)
		if found.Tag() != second.Tag() || !samePlan(found.Plan, second.Plan) {
			t.Fatalf("found %+v, want %+v", found, second)
		}
		view, err := v.store.Preheat(ctx, found.Plan)
		must(t, err)
		must(t, d.Spend(ctx, found))
		if n := v.client.HLen(ctx, draftsKey()).Val(); n != 0 || view.Sale.Version != 2 || view.Level.Total != 77 {
			t.Fatalf("%d drafts are left, %+v", n, view)
		}
		hot, err := d.Find(ctx, "a")
		must(t, err)
		if hot.Waiting || hot.Preheated != 2 || hot.Tag() != second.Tag() {
			t.Fatalf("the preheated plan is not the one that was edited: %+v", hot)
		}
		plan.Total = 78
		third, err := d.Replace(ctx, plan, []string{AnyPlan})
		must(t, err)
		if third.Plan.Version != 3 || third.Preheated != 2 || !third.Waiting {
			t.Fatalf("%+v", third)
		}
		v.level(t, "a", 77, 0, 0) // a draft touches no stock
		_, err = v.store.Preheat(ctx, third.Plan)
		must(t, err)
		v.level(t, "a", 78, 0, 0)
		if left, err := d.Find(ctx, "a"); err != nil || left.Waiting { // not spent, and passed over
			t.Fatalf("%+v %v", left, err)
		}
	})
}

func TestDraft_OfTwoEditorsAtOnceOneIsToldThatThePlanChanged(t *testing.T) { // lost update
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, d, plan := t.Context(), newDrafts(t, v.store), v.draftPlan(t, "a")
		current, err := d.Create(ctx, plan)
		must(t, err)
		const editors, rounds = 8, 10
		for round := range rounds {
			var won, told atomic.Int64
			var all sync.WaitGroup
			tag := current.Tag()
			for i := range editors {
				all.Go(func() {
					mine := plan
					mine.Total = int64(1000 + round*editors + i)
					switch got, err := d.Replace(context.Background(), mine, []string{tag}); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, ErrPlanChanged) && got.Tag() != tag:
						told.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 || told.Load() != editors-1 {
				t.Fatalf("%d editors won, %d were told", won.Load(), told.Load())
			}
			current, err = d.Find(ctx, "a")
			must(t, err)
			if current.Plan.Version != int64(round+2) {
				t.Fatalf("round %d: version %d", round, current.Plan.Version)
			}
		}
	})
}

func TestDraft_AnEditAndAPreheatAtOnceLoseNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, d := t.Context(), newDrafts(t, v.store)
		for i := range 10 {
			plan := v.draftPlan(t, fmt.Sprint("s", i))
			first, err := d.Create(ctx, plan)
			must(t, err)
			edited := plan
			edited.Total = 5
			done := make(chan error, 1)
			go func() {
				_, err := v.store.Preheat(ctx, first.Plan)
				done <- errors.Join(err, d.Spend(ctx, first))
			}()
			second, err := d.Replace(ctx, edited, []string{first.Tag()})
			must(t, err)
			must(t, <-done)
			now, err := d.Find(ctx, plan.ID)
			must(t, err)
			if !now.Waiting || now.Preheated != 1 || now.Tag() != second.Tag() {
				t.Fatalf("the edit is lost: %+v", now)
			}
		}
	})
}

func TestDraft_WhatCannotBeChangedIsRefused(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, d, plan := t.Context(), newDrafts(t, v.store), v.draftPlan(t, "a")
		refused := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		_, err := d.Find(ctx, "a")
		refused("finding nothing", err, ErrUnknownSale)
		_, err = d.Replace(ctx, plan, []string{AnyPlan})
		refused("replacing nothing", err, ErrUnknownSale)
		_, err = d.Delete(ctx, "a", []string{AnyPlan})
		refused("deleting nothing", err, ErrUnknownSale)
		bad := plan
		bad.Total = -1
		_, err = d.Create(ctx, bad)
		refused("creating nonsense", err, ErrInvalidSale)
		first, err := d.Create(ctx, plan)
		must(t, err)
		_, err = d.Replace(ctx, bad, []string{AnyPlan})
		refused("replacing by nonsense", err, ErrInvalidSale)
		other := plan
		other.Total++
		got, err := d.Create(ctx, other)
		refused("creating twice", err, ErrSaleExists)
		if got.Tag() != first.Tag() {
			t.Errorf("the present plan is not told: %+v", got)
		}
		_, err = d.Delete(ctx, "a", []string{"v1-0"})
		refused("deleting another plan", err, ErrPlanChanged)
		_, err = v.store.Preheat(ctx, first.Plan)
		must(t, err)
		_, err = d.Delete(ctx, "a", []string{AnyPlan})
		refused("deleting what is preheated", err, ErrNotAllowed)
		v.advance(t, "a", time.Hour)
		v.moveRecord(t, "a", time.Hour)
		_, err = d.Replace(ctx, other, []string{AnyPlan})
		refused("editing at the first moment of the sale", err, ErrSaleStarted)

		plan = v.draftPlan(t, "b")
		_, err = v.store.Preheat(ctx, plan)
		must(t, err)
		_, err = v.store.SetDesired(ctx, "b", DesiredCancelled)
		must(t, err)
		_, err = d.Replace(ctx, plan, []string{AnyPlan})
		refused("editing a cancelled sale", err, ErrSaleStarted)
	})
}

// moveRecord lets d pass for the record of a sale on a real server, whose clock
// cannot be set.
func (v *env) moveRecord(t testing.TB, sale string, d time.Duration) {
	t.Helper()
	if v.mini != nil {
		return
	}
	r, _, err := v.store.readRecord(t.Context(), sale)
	must(t, err)
	r.Start -= d.Milliseconds()
	must(t, v.client.HSet(t.Context(), salesKey(), sale, r.text()).Err())
}

func TestDraft_IsDeletedOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx, d := t.Context(), newDrafts(t, v.store)
		first, err := d.Create(ctx, v.draftPlan(t, "a"))
		must(t, err)
		gone, err := d.Delete(ctx, "a", []string{first.Tag()})
		must(t, err)
		if gone.Tag() != first.Tag() {
			t.Errorf("%+v", gone)
		}
		if _, err := d.Delete(ctx, "a", []string{first.Tag()}); !errors.Is(err, ErrUnknownSale) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDraft_TagsNameThePlanAndItsVersion(t *testing.T) {
	plan := planned()
	tag := PlanTag(plan)
	same := plan
	same.EndAt = plan.EndAt.In(time.FixedZone("", 3600)).Add(time.Microsecond)
	if PlanTag(same) != tag || strings.Trim(tag, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		t.Errorf("%s and %s", tag, PlanTag(same))
	}
	for name, change := range map[string]func(*Sale){
		"version": func(s *Sale) { s.Version++ }, "total": func(s *Sale) { s.Total++ }, "start": func(s *Sale) { s.StartAt = time.Time{} },
		"end": func(s *Sale) { s.EndAt = s.EndAt.Add(time.Millisecond) }, "hold": func(s *Sale) { s.Hold++ }, "item": func(s *Sale) { s.Item += "x" },
	} {
		other := plan
		change(&other)
		if PlanTag(other) == tag {
			t.Errorf("another %s has the same tag", name)
		}
	}
}

func TestDraft_ThereIsRoomForSoManyAndThoseThatCannotTakeEffectMakeRoom(t *testing.T) {
	v := memoryEnv(t)
	ctx, d := t.Context(), newDrafts(t, v.store)
	hot := v.draftPlan(t, "hot")
	first, err := d.Create(ctx, hot)
	must(t, err)
	_, err = v.store.Preheat(ctx, first.Plan) // not spent, as after a crash
	must(t, err)
	var fill []any
	for i := range MaxDrafts - 1 {
		p := v.draftPlan(t, fmt.Sprint("d", i))
		fill = append(fill, p.ID, draftText(p))
	}
	must(t, v.client.HSet(ctx, draftsKey(), fill...).Err())
	if _, err := d.Create(ctx, v.draftPlan(t, "last")); err != nil {
		t.Fatalf("the spent draft makes no room: %v", err)
	}
	if _, err := d.Create(ctx, v.draftPlan(t, "more")); !errors.Is(err, ErrTooManyDrafts) {
		t.Fatalf("got %v", err)
	}
	if _, err := d.Replace(ctx, v.draftPlan(t, "d7"), []string{AnyPlan}); err != nil {
		t.Errorf("an edit needs no room: %v", err)
	}
	all, err := d.List(ctx)
	must(t, err)
	if len(all) != MaxDrafts || all[0].ID != "d0" || all[len(all)-1].ID != "last" {
		t.Errorf("%d drafts from %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
	}
}

// TestDraft_FailedAndFailedButApplied: each change over a link that loses the
// reply, and over one that never arrives; repeating it makes it once.
func TestDraft_FailedAndFailedButApplied(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		l := v.linked(t)
		c := redis.NewClient(&redis.Options{Addr: l.addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: time.Second})
		t.Cleanup(func() { c.Close() })
		ctx, d, safe := t.Context(), newDrafts(t, newStore(t, c, v.real == nil)), newDrafts(t, v.store)
		plan := v.draftPlan(t, "a")
		lost := func(what string, change func() error) {
			t.Helper()
			l.lose.Store(true)
			err := change()
			l.lose.Store(false)
			if !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("%s with its reply lost: %v", what, err)
			}
		}
		version := func(want int64) string {
			t.Helper()
			now, err := safe.Find(ctx, "a")
			must(t, err)
			if now.Plan.Version != want {
				t.Fatalf("version %d, want %d", now.Plan.Version, want)
			}
			return now.Tag()
		}
		create := func() error { _, err := d.Create(ctx, plan); return err }
		must(t, create())
		_, err := d.Delete(ctx, "a", []string{AnyPlan})
		must(t, err) // all scripts but the edit are cached now; NOSCRIPT is a reply, too
		lost("create", create)
		must(t, create())
		tag := version(1)
		edit := plan
		edit.Total = 5
		replace := func() error { _, err := d.Replace(ctx, edit, []string{tag}); return err }
		lost("edit", replace)
		must(t, replace())
		must(t, replace())
		last := version(2)
		edit.Total = 6
		if err := replace(); !errors.Is(err, ErrPlanChanged) {
			t.Fatalf("another edit of the old plan: %v", err)
		}
		remove := func() error { _, err := d.Delete(ctx, "a", []string{last}); return err }
		lost("delete", remove)
		if err := remove(); !errors.Is(err, ErrUnknownSale) {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := d.Create(gone, plan); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("never sent: %v", err)
		}
		if _, err := safe.Find(ctx, "a"); !errors.Is(err, ErrUnknownSale) {
			t.Fatalf("what was never sent was done: %v", err)
		}
	})
}
