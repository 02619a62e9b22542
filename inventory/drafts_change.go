package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Create keeps the plan as version 1 of a new sale, whatever version it names.
// Doing it twice changes nothing. Errors: ErrInvalidSale, ErrSaleExists (the
// present plan is beside it), ErrTooManyDrafts, ErrUnavailable,
// ErrOutcomeUnknown (repeat it).
func (d *Drafts) Create(ctx context.Context, plan Sale) (Draft, error) {
	plan.Version = 1
	if err := plan.Validate(); err != nil {
		return Draft{}, err
	}
	for swept := false; ; swept = true {
		p, err := d.read(ctx, plan.ID)
		switch {
		case err != nil:
			return Draft{}, err
		case p.record == "" && p.draft != "" && samePlan(p.current.Plan, plan):
			return p.current, nil // made by an earlier try whose answer was lost
		case p.known():
			return p.current, fmt.Errorf("sale %s: %w", plan.ID, ErrSaleExists)
		}
		code, err := d.write(ctx, p, plan)
		switch {
		case err != nil:
			return Draft{}, err
		case code == putDone:
			return Draft{Plan: plan, Waiting: true, text: draftText(plan)}, nil
		case code == putFull && swept:
			return Draft{}, fmt.Errorf("%w: %d", ErrTooManyDrafts, MaxDrafts)
		case code == putFull:
			if err := d.sweep(ctx); err != nil {
				return Draft{}, err
			}
		case swept:
			return Draft{}, fmt.Errorf("sale %s: its plan keeps changing: %w", plan.ID, ErrUnavailable)
		}
	}
}

// Replace makes the plan the next version of its sale, whatever version it
// names, if one of match names the present one (PlanTag, or AnyPlan). Of a sale
// that is preheated and not started it makes a draft; the preheated one goes on
// until the draft is preheated. Repeating it with the same match after a lost
// answer changes nothing.
//
// Errors: ErrInvalidSale, ErrUnknownSale, ErrPlanChanged (the present one is
// beside it), ErrSaleStarted (started, ended or cancelled), ErrUnavailable,
// ErrTooManyDrafts, ErrOutcomeUnknown (repeat it).
func (d *Drafts) Replace(ctx context.Context, plan Sale, match []string) (Draft, error) {
	plan.Version = max(plan.Version, 1)
	if err := plan.Validate(); err != nil {
		return Draft{}, err
	}
	for range maxSwaps {
		p, err := d.read(ctx, plan.ID)
		switch {
		case err != nil:
			return Draft{}, err
		case !p.known():
			return Draft{}, fmt.Errorf("sale %s: %w", plan.ID, ErrUnknownSale)
		case p.preheated.Desired == DesiredCancelled:
			return p.current, fmt.Errorf("sale %s is cancelled: %w", plan.ID, ErrSaleStarted)
		case madeBefore(p.current, plan, match):
			return p.current, nil
		case !matches(p.current, match):
			return p.current, fmt.Errorf("sale %s: %w", plan.ID, ErrPlanChanged)
		}
		plan.Version = p.current.Plan.Version + 1
		code, err := d.write(ctx, p, plan)
		switch {
		case err != nil:
			return Draft{}, err
		case code == putDone:
			return Draft{Plan: plan, Preheated: p.current.Preheated, Waiting: true, text: draftText(plan)}, nil
		case code == putStarted:
			return p.current, fmt.Errorf("sale %s: %w", plan.ID, ErrSaleStarted)
		case code == putFull:
			return Draft{}, fmt.Errorf("%w: %d", ErrTooManyDrafts, MaxDrafts)
		}
	}
	return Draft{}, fmt.Errorf("sale %s: its plan keeps changing: %w", plan.ID, ErrUnavailable)
}

func matches(present Draft, match []string) bool {
	return slices.Contains(match, AnyPlan) || slices.Contains(match, present.Tag())
}

// madeBefore: the present draft is this plan, made from the version that match
// names; by this caller, or by another with the same wish.
func madeBefore(present Draft, plan Sale, match []string) bool {
	plan.Version = present.Plan.Version
	if !present.Waiting || !samePlan(present.Plan, plan) || matches(present, match) {
		return false
	}
	return slices.ContainsFunc(match, func(tag string) bool {
		version, _, _ := strings.Cut(strings.TrimPrefix(tag, "v"), "-")
		n, err := strconv.ParseInt(version, 10, 64)
		return err == nil && n == present.Plan.Version-1
	})
}

// What draft_put.lua answers.
const (
	putDone    = 0
	putChanged = 1
	putStarted = 2
	putFull    = 3
)

func (d *Drafts) write(ctx context.Context, over plans, plan Sale) (int64, error) {
	return d.store.runInt(ctx, &d.put, []string{draftsKey(), salesKey()},
		plan.ID, over.draft, over.record, draftText(plan), over.preheated.Start, MaxDrafts)
}

// Delete removes the draft of a sale that was never preheated, if one of match
// names it. Errors: ErrUnknownSale (also when it is done already), ErrPlanChanged
// (the present one is beside it), ErrNotAllowed (it is preheated),
// ErrUnavailable, ErrOutcomeUnknown (repeat it).
func (d *Drafts) Delete(ctx context.Context, sale string, match []string) (Draft, error) {
	for range maxSwaps {
		p, err := d.read(ctx, sale)
		switch {
		case err != nil:
			return Draft{}, err
		case !p.known():
			return Draft{}, fmt.Errorf("sale %s: %w", sale, ErrUnknownSale)
		case p.record != "":
			return p.current, fmt.Errorf("sale %s is preheated: %w", sale, ErrNotAllowed)
		case !matches(p.current, match):
			return p.current, fmt.Errorf("sale %s: %w", sale, ErrPlanChanged)
		}
		code, err := d.remove(ctx, sale, p.draft, true)
		if err != nil || code == 0 {
			return p.current, err
		}
	}
	return Draft{}, fmt.Errorf("sale %s: its plan keeps changing: %w", sale, ErrUnavailable)
}

// Spend removes a draft that was preheated, unless it was edited meanwhile. If
// it fails, the draft is passed over from then on: its version is preheated.
func (d *Drafts) Spend(ctx context.Context, used Draft) error {
	if !used.Waiting {
		return nil
	}
	_, err := d.remove(ctx, used.Plan.ID, used.text, false)
	return err
}

func (d *Drafts) remove(ctx context.Context, sale, text string, never bool) (int64, error) {
	only := 0
	if never {
		only = 1
	}
	return d.store.runInt(ctx, &d.drop, []string{draftsKey(), salesKey()}, sale, text, only)
}

// sweep removes the drafts that can no longer take effect: their version is
// preheated, or their sale has started.
func (d *Drafts) sweep(ctx context.Context) error {
	now, err := d.store.redis.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("reading drafts: %w", mapRead(err))
	}
	all, err := d.List(ctx)
	if err != nil {
		return err
	}
	for _, plan := range all {
		p, err := d.read(ctx, plan.ID)
		if err != nil {
			return err
		}
		if p.record == "" || p.current.Waiting && now.UnixMilli() < p.preheated.Start {
			continue
		}
		if _, err := d.remove(ctx, plan.ID, p.draft, false); err != nil {
			return err
		}
	}
	return nil
}
