package main

import (
	"time"

	"weir/inventory"
)

// Plan is the sale for the store. now is the moment from which an end like +2h
// counts when the start is "now"; such a start stays zero, which means the
// moment of the preheat.
func (s SaleConfig) Plan(now time.Time) inventory.Sale {
	now = now.Truncate(time.Millisecond) // the precision of the store
	end := s.EndsAt.At
	if end.IsZero() {
		from := s.StartsAt.At
		if from.IsZero() {
			from = now
		}
		end = from.Add(s.EndsAt.After)
	}
	return inventory.Sale{
		ID:          s.ID,
		Version:     s.Version,
		Item:        s.Item,
		StartAt:     s.StartsAt.At,
		EndAt:       end,
		Total:       s.Total,
		SafetyStock: s.SafetyStock,
		Buckets:     s.Buckets,
		BucketCap:   s.BucketCap,
		BuyerLimit:  s.BuyerLimit,
		MaxQuantity: s.MaxQuantity,
		Hold:        s.Hold,
		Expiry:      inventory.Expiry(s.Expiry),
		Settle:      inventory.Settle(s.Settle),
	}
}
