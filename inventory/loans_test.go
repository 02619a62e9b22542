package inventory

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// repaired has another replica read the stock as often as it takes to see that
// a loan stays on the road; its books must close at every step.
func (v *env) repaired(t testing.TB, sale, name string) Level {
	t.Helper()
	other := v.another(t, name) // the first reading
	for range 2 {
		must(t, other.Refresh(t.Context()))
	}
	return checkBooks(t, other, sale)
}

// failing is a replica whose next command fails; applied: only its answer is lost.
func (v *env) failing(t testing.TB, applied bool) *Store {
	t.Helper()
	f := &fault{from: never, count: 1, applied: applied}
	s := v.another(t, "failing", f)
	must(t, s.redis.Ping(t.Context()).Err()) // its connection is made
	f.next(1)
	return s
}

func TestLoans_ALostStepIsMadeUpForByAnotherReplica(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, c := range []struct {
			name          string
			lend, accept  bool // this step fails
			applied       bool
			free0, free1  int64 // after the repair, of 10 and 0
			onLoan, after int64 // between, and free in all
		}{
			{"the lend is lost", true, false, false, 10, 0, 0, 10},
			{"the lend was done, its answer is lost", true, false, true, 6, 4, 4, 10},
			{"the accept is lost", false, true, false, 6, 4, 4, 10},
			{"the accept was done, its answer is lost", false, true, true, 6, 4, 0, 10},
		} {
			t.Run(c.name, func(t *testing.T) {
				v.fresh(t)
				sale := v.spreadSale(t, []int64{10, 0}, nil)
				l := loan{id: newLoanID(), units: 4, from: 0}
				lender, accepter := v.store, v.store
				if c.lend {
					lender = v.failing(t, c.applied)
				} else {
					accepter = v.failing(t, c.applied)
				}
				_, err := v.lendBy(t, lender, sale.ID, l, 1)
				if (err != nil) != c.lend {
					t.Fatal(err)
				}
				checkBooks(t, v.store, sale.ID)
				if c.accept {
					if err := v.acceptBy(t, accepter, sale.ID, l, 1); err == nil {
						t.Fatal("no error")
					}
				}
				if got := checkBooks(t, v.store, sale.ID); got.OnLoan != c.onLoan {
					t.Fatalf("%d units are on the road, want %d", got.OnLoan, c.onLoan)
				}
				if got := v.repaired(t, sale.ID, "b"); got.OnLoan != 0 || got.Free != c.after {
					t.Fatalf("%+v", got)
				}
				v.holds(t, sale.ID, c.free0, c.free1)
			})
		}
	})
}

func TestLoans_EachStepIsDoneOnceHoweverOftenAndLateItComes(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{10, 0, 0}, nil)
		l := loan{id: newLoanID(), units: 4, from: 0}
		for range 3 {
			n, err := v.lendBy(t, v.store, sale.ID, l, 1)
			must(t, err)
			if n != 4 {
				t.Fatalf("lent %d", n)
			}
			v.holds(t, sale.ID, 6, 0, 0)
		}
		v.repaired(t, sale.ID, "b") // sends it on
		v.holds(t, sale.ID, 6, 4, 0)
		for range 3 { // the accept that was thought lost, and all of it again
			must(t, v.acceptBy(t, v.store, sale.ID, l, 1))
			n, err := v.lendBy(t, v.store, sale.ID, l, 1)
			must(t, err)
			if n != 4 {
				t.Fatalf("lent %d", n)
			}
			v.holds(t, sale.ID, 6, 4, 0)
		}
		part := loan{id: newLoanID(), units: 99, from: 0} // fewer are there: it lends those
		n, err := v.lendBy(t, v.store, sale.ID, part, 2)
		must(t, err)
		none, err := v.lendBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 1, from: 0}, 2)
		must(t, err)
		if n != 6 || none != 0 {
			t.Fatalf("lent %d and %d", n, none)
		}
		v.repaired(t, sale.ID, "c")
		v.holds(t, sale.ID, 0, 4, 6)
	})
}

func TestLoans_ManyReplicasThatRepairAtOnceAcceptEachLoanOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{10, 10, 10}, nil)
		for i := range 9 {
			_, err := v.lendBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 2, from: i % 3}, (i+1)%3)
			must(t, err)
		}
		stores := []*Store{v.store, v.another(t, "b"), v.another(t, "c")}
		parallel(t, 9, func(i int) error { return stores[i%3].repair(t.Context(), sale.ID) })
		v.holds(t, sale.ID, 10, 10, 10)
	})
}

// forget makes a bucket forget that it lent, as a replica would that took over
// before it heard of it.
func (v *env) forget(t testing.TB, sale string, l loan) {
	t.Helper()
	b := v.buckets(sale)[l.from]
	ctx := t.Context()
	must(t, v.client.HDel(ctx, b.lentKey(), l.id).Err())
	must(t, v.client.HIncrBy(ctx, b.headKey(), "lent_out", -l.units).Err())
	must(t, v.client.HIncrBy(ctx, b.headKey(), "free", l.units).Err())
}

func TestLoans_ALendThatWasForgottenIsBookedAgain(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{10, 0}, nil)
		l := loan{id: newLoanID(), units: 4, from: 0}
		_, err := v.lendBy(t, v.store, sale.ID, l, 1)
		must(t, err)
		must(t, v.acceptBy(t, v.store, sale.ID, l, 1))
		v.forget(t, sale.ID, l)
		a, err := v.store.Audit(t.Context(), sale.ID)
		must(t, err)
		if a.OK {
			t.Fatal("four units stand in two books, and the audit saw nothing")
		}
		v.repaired(t, sale.ID, "b")
		v.holds(t, sale.ID, 6, 4)
	})
}

func TestLoans_AForgottenLendWhoseUnitsAreSoldPausesTheSale(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.spreadSale(t, []int64{10, 0}, nil)
		l := loan{id: newLoanID(), units: 4, from: 0}
		_, err := v.lendBy(t, v.store, sale.ID, l, 1)
		must(t, err)
		must(t, v.acceptBy(t, v.store, sale.ID, l, 1))
		v.forget(t, sale.ID, l)
		res, err := v.store.Reserve(ctx, order(sale, homeUser(sale.ID, 2, 0, 0), 8)) // two of the four
		must(t, err)
		other := v.another(t, "b")
		for range 3 {
			must(t, other.Refresh(ctx))
		}
		view, _ := other.View(sale.ID)
		if view.Desired != DesiredPaused || view.Reason != deficitReason || other.Stats().Lost == 0 {
			t.Fatalf("%+v, %+v", view, other.Stats())
		}
		if a, err := other.Audit(ctx, sale.ID); err != nil || a.OK || a.Level.OnLoan != -4 {
			t.Fatalf("%+v, %v", a, err)
		}
		refused, err := other.Reserve(ctx, order(sale, "x", 1))
		must(t, err)
		if refused.Code != NotRunning {
			t.Fatalf("%+v", refused)
		}
		_, err = v.store.Release(ctx, sale.ID, res.Reservation.ID, 0) // the remedy: somebody gives way
		must(t, err)
		must(t, other.Refresh(ctx))
		must(t, other.Refresh(ctx))
		v.holds(t, sale.ID, 6, 4)
		view, err = other.SetDesired(ctx, sale.ID, DesiredOn)
		must(t, err)
		if view.Desired != DesiredOn || view.Reason != "" {
			t.Fatalf("%+v", view)
		}
	})
}

// TestLoans_AForgottenLendIsNotHiddenByALoanOnTheRoad: the sums agree, the
// books do not. After a restart they are compared line by line.
func TestLoans_AForgottenLendIsNotHiddenByALoanOnTheRoad(t *testing.T) {
	v := realEnv(t)
	sale := v.spreadSale(t, []int64{10, 10, 0}, nil)
	gone, road := loan{id: newLoanID(), units: 4, from: 0}, loan{id: newLoanID(), units: 4, from: 1}
	for _, l := range []loan{gone, road} {
		_, err := v.lendBy(t, v.store, sale.ID, l, 2)
		must(t, err)
	}
	must(t, v.acceptBy(t, v.store, sale.ID, gone, 2))
	v.forget(t, sale.ID, gone)
	v.restart(t, "")
	v.oneEach(t, sale, 3)
	must(t, v.store.Refresh(t.Context()))
	v.holds(t, sale.ID, 5, 5, 7)
}

func TestLoans_AReplicaThatStartsComparesTheBooksLineByLine(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{10, 10, 0}, nil)
		gone, road := loan{id: newLoanID(), units: 4, from: 0}, loan{id: newLoanID(), units: 4, from: 1}
		for _, l := range []loan{gone, road} {
			_, err := v.lendBy(t, v.store, sale.ID, l, 2)
			must(t, err)
		}
		must(t, v.acceptBy(t, v.store, sale.ID, gone, 2))
		v.forget(t, sale.ID, gone)
		v.another(t, "b")
		v.holds(t, sale.ID, 6, 6, 8)
	})
}

// oneEach has one buyer of each bucket come, so that each is armed again.
func (v *env) oneEach(t testing.TB, sale Sale, n int) {
	t.Helper()
	for i := range n {
		res, err := v.store.Reserve(t.Context(), order(sale, homeUser(sale.ID, n, i, 0), 1))
		must(t, err)
		if res.Code != Taken {
			t.Fatalf("%+v", res)
		}
	}
}

func TestLoans_PauseAndCancelFirstBringThemHome(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, want := range []Desired{DesiredPaused, DesiredCancelled} {
			v.fresh(t)
			sale := v.spreadSale(t, []int64{10, 10, 0}, nil)
			for i := range 4 {
				_, err := v.lendBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 2, from: i % 2}, 2)
				must(t, err)
			}
			if l := checkBooks(t, v.store, sale.ID); l.OnLoan != 8 {
				t.Fatalf("%+v", l)
			}
			view, err := v.another(t, "b").SetDesired(t.Context(), sale.ID, want)
			must(t, err)
			if view.Level.OnLoan != 0 || view.Desired != want {
				t.Fatalf("%+v", view)
			}
			v.holds(t, sale.ID, 6, 6, 8)
		}
	})
}

func TestLoans_AGathererThatDiesAtAnyStepLosesNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		for _, applied := range []bool{false, true} {
			for step := 1; ; step++ {
				v.fresh(t)
				sale := v.spreadSale(t, []int64{0, 1, 1}, nil)
				f := &fault{from: never, count: 1, applied: applied}
				s := v.another(t, "b", f)
				must(t, s.redis.Ping(t.Context()).Err())
				f.next(step)
				o := order(sale, homeUser(sale.ID, 3, 0, 0), 2)
				res, err := s.Reserve(t.Context(), o)
				s.background.Wait()
				checkBooks(t, v.store, sale.ID)
				if f.hits == 0 {
					must(t, err)
					break
				}
				if err == nil && res.Code == NotEnough && res.Available == 0 {
					t.Fatalf("step %d: sold out, was told", step)
				}
				v.afterTheCrash(t, sale, o, fmt.Sprint("step ", step, " applied ", applied, ": ", res.Code, " ", err))
			}
		}
	})
}

// afterTheCrash: other replicas bring the books home, and the buyer who asks
// again, here by another one, has his two units, once.
func (v *env) afterTheCrash(t *testing.T, sale Sale, o Order, what string) {
	t.Helper()
	if v.mini != nil {
		v.advance(t, sale.ID, gatherLease) // the dead one may have taken the lease
	}
	if l := v.repaired(t, sale.ID, "c"); l.OnLoan != 0 || l.Free+l.Reserved != 2 {
		t.Fatalf("%s: %+v", what, l)
	}
	res, err := v.store.Reserve(t.Context(), o)
	must(t, err)
	if res.Code != TakenLast && (res.Code != Known || res.Reservation.State != Reserved) {
		t.Fatalf("%s: then %+v", what, res)
	}
	if l := checkBooks(t, v.store, sale.ID); l.Reserved != 2 || l.Free != 0 || l.OnLoan != 0 {
		t.Fatalf("%s: then %+v", what, l)
	}
}

func TestLoans_AStaleLoanIsAnErrorAndNotTakenForDone(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		sale := v.spreadSale(t, []int64{10, 0}, nil)
		_, err := v.lendBy(t, v.store, sale.ID, loan{id: newLoanID(), units: 4, from: 0}, 1)
		must(t, err)
		head := v.buckets(sale.ID)[1].headKey()
		must(t, v.client.HSet(t.Context(), head, "void", "shut").Err())
		if err := v.store.repair(t.Context(), sale.ID); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("nothing was accepted, and no error: %v", err)
		}
		must(t, v.client.HSet(t.Context(), head, "void", "0").Err())
		must(t, v.store.repair(t.Context(), sale.ID))
		v.holds(t, sale.ID, 6, 4)
	})
}

func TestLoans_MoveWhileEverybodyBuysAndGivesBack(t *testing.T) {
	eachStorm(t, func(t *testing.T, v *env, buyers int) {
		sale := v.openSale(t, 50, func(s *Sale) { s.Buckets = 5 })
		stores := []*Store{v.store, v.another(t, "b"), v.another(t, "c")}
		var won atomic.Int64
		parallel(t, buyers, func(i int) error {
			s := stores[i%3]
			if i%8 == 0 {
				_, err := v.lendBy(t, s, sale.ID, loan{id: newLoanID(), units: 3, from: i / 8 % 5}, (i/8+1)%5)
				return errors.Join(err, s.Refresh(t.Context()))
			}
			o := order(sale, fmt.Sprint("u", i), 1)
			res, err := s.Reserve(t.Context(), o)
			if err == nil && res.Granted && i%2 == 0 {
				_, err = s.Release(t.Context(), sale.ID, o.ID, 1)
			} else if res.Granted {
				won.Add(1)
			}
			return err
		})
		l := v.repaired(t, sale.ID, "d")
		if l.OnLoan != 0 || l.Reserved != won.Load() || l.Free+l.Reserved != 50 {
			t.Fatalf("%d won: %+v", won.Load(), l)
		}
	})
}
