package inventory

import (
	"context"
	"errors"
	"fmt"
)

// maxSwaps bounds how often a record that others change is read again.
const maxSwaps = 8

// SetDesired records what the operator wants of the sale and brings it to the
// bucket; Refresh brings it there until it has arrived. Cancelled is final:
// ErrNotAllowed afterwards. Asking twice is nothing new. ErrRecorded beside the
// cause: it stands, and not every bucket has it yet.
func (s *Store) SetDesired(ctx context.Context, sale string, d Desired) (View, error) {
	if d != DesiredOn && d != DesiredPaused && d != DesiredCancelled {
		return View{}, fmt.Errorf("sale %s: desired state %q: %w", sale, d, ErrNotAllowed)
	}
	if err := s.setDesired(ctx, sale, d, ""); err != nil {
		return View{}, err
	}
	if d != DesiredOn { // nothing stays on the road while nobody sells
		if err := s.repair(ctx, sale); err != nil {
			s.log.Warn("a refresh brings the open loans home", "sale", sale, "error", err)
		}
	}
	v, err := s.freshView(ctx, sale)
	if err != nil && !errors.Is(err, ErrUnknownSale) {
		err = fmt.Errorf("%w: %w", ErrRecorded, err)
	}
	return v, err
}

func (s *Store) freshView(ctx context.Context, sale string) (View, error) {
	if err := s.Refresh(ctx); err != nil {
		return View{}, err
	}
	return s.Look(ctx, sale)
}

func (s *Store) setDesired(ctx context.Context, sale string, d Desired, reason string) error {
	for range maxSwaps {
		r, text, err := s.readRecord(ctx, sale)
		switch {
		case err != nil:
			return err
		case text == "":
			if past, err := s.past(ctx, sale); err == nil && past.view.Desired != d {
				return overInArchive(sale)
			} else if err == nil {
				return nil
			}
			return fmt.Errorf("sale %s: %w", sale, ErrUnknownSale)
		case r.Desired == d && (reason == "" || r.Reason != ""): // a person's pause may yet learn what is wrong
			return s.pushAll(ctx, r, d)
		case r.Gone:
			return overInArchive(sale)
		case r.Desired == DesiredCancelled:
			return fmt.Errorf("sale %s is cancelled: %w", sale, ErrNotAllowed)
		}
		r.Desired, r.Reason = d, reason
		r.DesiredVersion++
		code, err := s.runInt(ctx, &s.scripts.swap, []string{salesKey()}, sale, text, r.text())
		if err != nil {
			return err
		}
		if code == 0 {
			return s.pushAll(ctx, r, d)
		}
	}
	return fmt.Errorf("sale %s: its record keeps changing: %w", sale, ErrUnavailable)
}

func overInArchive(sale string) error {
	return fmt.Errorf("sale %s is over, and only the archive has it: %w", sale, ErrNotAllowed)
}

// pushAll brings a desired state that is recorded to all buckets of a sale.
func (s *Store) pushAll(ctx context.Context, r record, d Desired) error {
	var faults []error
	for _, b := range r.buckets() {
		faults = append(faults, s.push(ctx, b, d, r.DesiredVersion))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("sale %s: %w: %w", r.Plan.ID, ErrRecorded, err)
	}
	return nil
}

// push brings a desired state to a bucket; an older version loses there.
func (s *Store) push(ctx context.Context, b bucket, d Desired, version int64) error {
	code, err := s.runInt(ctx, &s.scripts.desire, []string{b.headKey()}, b.generation, string(d), version)
	if err == nil && code != 0 {
		err = errNoBucket(b.sale)
	}
	return err
}
