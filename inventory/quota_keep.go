package inventory

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	quotaEvery = time.Second
	quotaPass  = 10 * time.Second // most that one round takes
	quotaLease = quotaPass + 5*time.Second
	quotaJob   = "quotas"
)

// keepQuotas freezes and thaws what is due until ctx ends: one replica does it.
func (s *Store) keepQuotas(ctx context.Context) {
	if s.quota.shop == nil {
		return
	}
	tick := time.NewTicker(quotaEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		mine, err := s.Lease(ctx, quotaJob, quotaLease)
		if err == nil && mine {
			err = s.mendQuotas(ctx)
		}
		if (err != nil) != failing && ctx.Err() == nil { // once when it begins, once when it is over
			failing = err != nil
			s.log.Warn("quotas", "stale", failing, "error", err)
		}
	}
}

// mendQuotas is one round over all quotas, those first that wait longest.
func (s *Store) mendQuotas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quotaPass)
	defer cancel()
	all, err := s.Quotas(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b QuotaState) int { return a.Next.Compare(b.Next) })
	var failed error
	for _, q := range all {
		if s.rests(q) {
			continue
		}
		if ctx.Err() != nil {
			break // the next round begins with the others
		}
		if err := s.mendQuota(ctx, q.Sale, 0); err != nil && !errors.Is(err, errQuotaMoved) {
			failed = err
		}
	}
	return failed
}

// rests: by the views, nothing is to be done. No I/O.
func (s *Store) rests(q QuotaState) bool {
	snap := s.views.Load()
	e, ok := snap.bySale[q.Sale]
	if !q.settled() {
		return q.Next.After(snap.now())
	}
	if !ok || e.gone() {
		return q.Stage == QuotaThawed
	}
	if over(e.view.StateAt(snap.now())) {
		return q.Stage == QuotaThawed && q.Units-q.Unsold == min(e.view.Level.Confirmed, q.Units)
	}
	return q.Stage == QuotaFrozen && q.Version == e.view.Sale.Version && q.Units == quotaUnits(e.view.Sale)
}

func over(state SaleState) bool { return state == SaleEnded || state == SaleCancelled }

// mendQuota does the next step of one quota, if one is due. own is the step of
// a preheat that is over and says so; 0: only what nobody is at any more.
func (s *Store) mendQuota(ctx context.Context, sale string, own int64) error {
	h, err := s.lookQuota(ctx, sale)
	if err != nil || h.text == "" || own != 0 && h.Step != own {
		return err
	}
	want, known, err := s.wantQuota(ctx, h, own != 0)
	if err != nil || !known {
		return err
	}
	changed := want != h.QuotaState
	switch {
	case !changed && (want.settled() || h.Next.After(msTime(h.now))):
		return nil
	case want.settled(): // only who asked for it
		_, err = s.putQuota(ctx, h, want)
		return err
	case changed:
		want.Tries, want.Fault, want.Refused, want.Since = 0, "", false, msTime(h.now)
	}
	return s.stepQuota(ctx, h, want)
}

// stepQuota asks the shop. That it is going to be asked is written down first:
// of several who would ask one does, and the next one waits its time.
func (s *Store) stepQuota(ctx context.Context, h heldQuota, q QuotaState) error {
	q.Step, q.Tries = h.next(), q.Tries+1
	q.Next = msTime(h.now).Add(quotaWait(q.Tries))
	h, err := s.putQuota(ctx, h, q)
	if err != nil {
		return err
	}
	err = s.askShop(ctx, q)
	if err != nil {
		s.log.Warn("the quota of a sale is asked for again", "sale", q.Sale, "state", string(q.Stage), "tries", q.Tries, "next", q.Next, "error", err)
	}
	done := q.answered(err, h.now)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if _, e := s.putQuota(after, h, done); e != nil {
		return e
	}
	if err == nil {
		s.log.Info("the quota of a sale", "sale", q.Sale, "state", string(done.Stage), "units", q.Units, "unsold", q.Unsold)
	}
	return nil
}
