package inventory

import (
	"context"
	"time"
)

// wantQuota is the stage in which a quota belongs, by the sale's record; false
// when nothing can be said yet.
func (s *Store) wantQuota(ctx context.Context, h heldQuota, own bool) (QuotaState, bool, error) {
	r, text, err := s.readRecord(ctx, h.Sale)
	if err != nil {
		return h.QuotaState, false, err
	}
	if h.ahead(r) {
		if !own && msTime(h.now).Sub(h.Since) < quotaGrace {
			return h.QuotaState, false, nil // a preheat is at it
		}
		idle, err := s.noPreheat(ctx, h.Sale)
		if err != nil || !idle {
			return h.QuotaState, false, err
		}
		// Only now no switch can land any more: what is in force is read again.
		if r, text, err = s.readRecord(ctx, h.Sale); err != nil {
			return h.QuotaState, false, err
		}
	}
	switch {
	case text == "" && s.sawSale(h.Sale):
		return h.QuotaState, false, nil // lost, not given up: units of it were sold
	case text == "":
		return h.thaw(0), true, nil
	case r.Gone && h.Stage == QuotaThawed:
		return h.QuotaState, false, nil
	case s.isOver(r, h.now):
		return s.closeQuota(ctx, h, r)
	}
	return h.freeze(r.Plan), true, nil
}

// ahead: frozen for a version that is not in force.
func (h heldQuota) ahead(r record) bool {
	return (h.Stage == QuotaFreezing || h.Stage == QuotaFrozen) && h.Version > r.Plan.Version
}

// noPreheat: no preheat of this sale that has its lease can switch any more. A
// dead one's lease is revoked for that.
func (s *Store) noPreheat(ctx context.Context, sale string) (bool, error) {
	code, generation, holder, err := s.begin(ctx, "")
	switch {
	case err != nil:
		return false, err
	case code == beginBusy:
		return holder != sale, nil
	case code == beginDead:
		_, err = s.finish(ctx, holder, generation)
		return err == nil, err
	}
	return true, nil
}

// sawSale: this replica knows that the sale was in force.
func (s *Store) sawSale(sale string) bool {
	e, ok := s.views.Load().bySale[sale]
	return ok && e.seen() > 0 || s.marks.sold(sale)
}

func (s *Store) isOver(r record, now int64) bool {
	return r.Gone || r.Desired == DesiredCancelled || now >= r.Plan.EndAt.UnixMilli()
}

// freeze is the stage of a sale in force.
func (q QuotaState) freeze(plan Sale) QuotaState {
	if (q.Stage != QuotaFrozen && q.Stage != QuotaFreezing) || q.Units != quotaUnits(plan) {
		q.Stage, q.Units, q.Unsold = QuotaFreezing, quotaUnits(plan), 0
	}
	q.Version, q.Item = plan.Version, plan.Item
	return q
}

// thaw is the stage of a sale of which so many were sold and no more will be.
func (q QuotaState) thaw(sold int64) QuotaState {
	unsold := max(q.Units-sold, 0)
	if (q.Stage == QuotaThawing || q.Stage == QuotaThawed) && q.Unsold == unsold {
		return q
	}
	q.Stage, q.Unsold = QuotaThawing, unsold
	return q
}

// closeQuota thaws when nothing can be sold any more. A unit that comes back, or
// is paid for, later is thawed once more with the other number. Of a sale whose
// keys are deleted it is the shop's own matter: the archive is not asked again.
func (s *Store) closeQuota(ctx context.Context, h heldQuota, r record) (QuotaState, bool, error) {
	sold, still, err := s.soldAtLast(ctx, r)
	if err != nil || !still {
		return h.QuotaState, false, err
	}
	if h.Stage == QuotaFreezing && !h.Refused && sold > 0 {
		return h.QuotaState, true, nil // how many are frozen must be known to say how many are left
	}
	return h.thaw(sold), true, nil
}

// soldAtLast is how many units a sale that is over has sold; still: in every
// bucket it is over, nothing is reserved or on the road, and no loss is open.
func (s *Store) soldAtLast(ctx context.Context, r record) (sold int64, still bool, err error) {
	e, err := s.entry(ctx, r.Plan.ID)
	if err != nil || e.view.Generation != r.Generation || e.gone() != r.Gone {
		return 0, false, err
	}
	if r.Gone {
		l, err := s.archivedLevel(ctx, e)
		return l.Confirmed, err == nil, err
	}
	if r.Reason == gapReason || e.view.Reason == gapReason {
		return 0, false, nil
	}
	first, err := s.readHeads(ctx, e.live)
	if err != nil {
		return 0, false, err
	}
	for i, h := range first {
		ended := !msTime(h.at).Before(r.Plan.EndAt.Truncate(time.Millisecond))
		if !ended && h.desired != DesiredCancelled || e.cells[i].watch.owes() {
			return 0, false, nil
		}
	}
	again, err := s.readHeads(ctx, e.live)
	if err != nil || !equalVersions(first, again) {
		return 0, false, err
	}
	l := addUpLevels(r.Plan.ID, again)
	return l.Confirmed, l.Reserved == 0 && l.OnLoan == 0, nil
}
