package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// freeze is the quota of one preheat: frozen before the stock is written, held
// under the preheat's lease, and set right afterwards by what is in force then.
// A nil one freezes nothing.
type freeze struct {
	s    *Store
	plan Sale
	held heldQuota // as this preheat wrote it last
}

// preheatFrozen preheats with the quota frozen first. While two versions may
// both come to be sold, the larger number is frozen.
func (s *Store) preheatFrozen(ctx context.Context, sale Sale, inForce record) error {
	if s.quota.shop == nil {
		return s.preheat(ctx, sale, nil)
	}
	f := &freeze{s: s, plan: sale}
	err := f.begin(ctx, inForce)
	if err == nil {
		err = s.preheat(ctx, sale, f)
	} else if !errors.Is(err, ErrQuotaRefused) {
		return err // what hangs now, if anything, is mended when it is old enough
	}
	f.end(ctx)
	return err
}

// begin writes down what is going to be frozen, and has it frozen.
func (f *freeze) begin(ctx context.Context, inForce record) error {
	if f.plan.SafetyStock > maxUnits-f.plan.Total {
		return fmt.Errorf("%w: safety_stock: is too much to be frozen with total", ErrInvalidSale)
	}
	for range maxSwaps {
		h, err := f.s.lookQuota(ctx, f.plan.ID)
		if err != nil {
			return err
		}
		if inForce.Generation != 0 && h.now >= inForce.Start {
			return ErrSaleStarted
		}
		if h.text != "" && h.Item != f.plan.Item && h.Stage != QuotaThawed {
			return fmt.Errorf("%w: item: units of %s are frozen for this sale; choose another id", ErrInvalidPreheat, h.Item)
		}
		q := QuotaState{
			Sale: f.plan.ID, Item: f.plan.Item, Version: f.plan.Version, Stage: QuotaFreezing, Units: quotaUnits(f.plan),
			Step: h.next(), Since: msTime(h.now), Tries: 1,
		}
		if inForce.Generation != 0 && inForce.Desired != DesiredCancelled {
			q.Units = max(q.Units, quotaUnits(inForce.Plan))
		}
		if h.Stage == QuotaFrozen && h.Units == q.Units {
			q.Stage, q.Tries = QuotaFrozen, 0
		}
		f.held, err = f.s.putQuota(ctx, h, q)
		if errors.Is(err, errQuotaMoved) {
			continue
		}
		if err != nil || q.Stage == QuotaFrozen {
			return err
		}
		return f.ask(ctx)
	}
	return fmt.Errorf("its quota keeps changing: %w", ErrUnavailable)
}

// ask freezes: an unknown outcome is asked again.
func (f *freeze) ask(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var err error
	for n := range quotaTries {
		select {
		case <-ctx.Done():
			return fmt.Errorf("freezing its quota: %w: %w", ErrUnavailable, errors.Join(ctx.Err(), err))
		case <-pause.C:
		}
		if err = f.s.askShop(ctx, f.held.QuotaState); err == nil || errors.Is(err, ErrQuotaRefused) {
			break
		}
		f.s.log.Warn("freezing a quota", "sale", f.plan.ID, "try", n+1, "error", err)
		pause.Reset(quotaPause << n)
	}
	// Written down even when the caller has gone meanwhile.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	held, e := f.s.putQuota(after, f.held, f.held.answered(err, f.held.now))
	if e == nil {
		f.held = held
	}
	switch {
	case err == nil, errors.Is(e, errQuotaMoved): // another has overtaken it: the shop's refusal may be of its step only
		return e
	case errors.Is(err, ErrQuotaRefused):
		return fmt.Errorf("%w: %w", ErrInvalidPreheat, err)
	}
	return fmt.Errorf("freezing its quota: %w: %w", ErrUnavailable, err)
}

// hold marks the quota as this preheat's, under the preheat's lease. From here
// on it is taken back only after the lease was revoked.
func (f *freeze) hold(ctx context.Context) error {
	if f == nil {
		return nil
	}
	for range maxSwaps {
		h, err := f.s.lookQuota(ctx, f.plan.ID)
		if err != nil {
			return err
		}
		if h.Stage != QuotaFrozen || h.Version != f.plan.Version || h.Item != f.plan.Item || h.Units < quotaUnits(f.plan) {
			return fmt.Errorf("its quota was changed meanwhile: %w", ErrUnavailable)
		}
		q := h.QuotaState
		q.Step, q.Since = h.next(), msTime(h.now)
		f.held, err = f.s.putQuota(ctx, h, q)
		if !errors.Is(err, errQuotaMoved) {
			return err
		}
	}
	return fmt.Errorf("its quota keeps changing: %w", ErrUnavailable)
}

// end sets the quota right once the preheat is over, well or not.
func (f *freeze) end(ctx context.Context) {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotaTime+undoTime)
	defer cancel()
	if err := f.s.mendQuota(after, f.plan.ID, f.held.Step); err != nil && !errors.Is(err, errQuotaMoved) {
		f.s.log.Warn("a quota is set right later", "sale", f.plan.ID, "error", err)
	}
}
