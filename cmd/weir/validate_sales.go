package main

import (
	"fmt"
	"time"
	"unicode/utf8"

	"weir/inventory"
)

// holdMargin is how much longer than one forward a hold must last, so that the
// answer of the shop can still be settled.
const holdMargin = 2 * time.Second

// maxUnits keeps every sum of units far from the precision of Lua's numbers (2⁵³).
const maxUnits = 1_000_000_000

func (k *checker) sales(list []SaleConfig, u UpstreamConfig) {
	ids := map[string]bool{}
	for i, s := range list {
		path := fmt.Sprintf("sales[%d]", i)
		k.name(path+".id", s.ID)
		if s.ID != "" && ids[s.ID] {
			k.add(path+".id", "(%s) stands twice, right is one id for each sale", clip(s.ID))
		}
		ids[s.ID] = true
		k.name(path+".item", s.Item)
		if utf8.RuneCountInString(s.Name) > 200 {
			k.add(path+".name", "is too long (%d characters), right is at most 200", utf8.RuneCountInString(s.Name))
		}
		k.units(path, s)
		k.times(path, s)
		k.hold(path, s, u)
		for _, other := range list[:i] {
			if s.Item == other.Item && s.ID != other.ID && overlap(s, other) {
				k.add(path+".item", "(%s) is on sale in %s at the same time, right is one open sale of an item at a time", clip(s.Item), clip(other.ID))
				break
			}
		}
	}
}

func (k *checker) units(path string, s SaleConfig) {
	between(k, path+".version", s.Version, 1, 1<<53-1)
	if s.Total == 0 {
		k.add(path+".total", "is missing or 0, right is the units on sale, at least 1")
	} else {
		between(k, path+".total", s.Total, 1, maxUnits)
	}
	between(k, path+".safety_stock", s.SafetyStock, 0, maxUnits)
	between(k, path+".bucket_cap", s.BucketCap, 0, maxUnits)
	between(k, path+".buckets", s.Buckets, 0, 64)
	if least := fullBuckets(s); s.Buckets > 0 && s.BucketCap > 0 && s.BucketCap < least {
		k.add(path+".bucket_cap", "(%d) is less than the largest of %d parts holds, right is at least %d, or 0 for no cap", s.BucketCap, s.Buckets, least)
	}
	between(k, path+".buyer_limit", s.BuyerLimit, 0, maxUnits)
	most := max(s.Total, 1)
	if s.BuyerLimit > 0 {
		most = min(most, s.BuyerLimit)
	}
	between(k, path+".max_quantity", s.MaxQuantity, 1, most)
}

func (k *checker) times(path string, s SaleConfig) {
	if s.StartsAt.After != 0 {
		k.add(path+".starts_at", "(%s) has nothing to count from, right is now or RFC 3339 with offset", s.StartsAt)
	}
	switch {
	case s.EndsAt.Now():
		k.add(path+".ends_at", "is missing or now, right is RFC 3339 with offset, or a time after the start such as +2h")
	case !s.StartsAt.At.IsZero() && !s.EndsAt.At.IsZero() && !s.EndsAt.At.After(s.StartsAt.At):
		k.add(path+".ends_at", "(%s) is not after starts_at (%s), right is later", s.EndsAt, s.StartsAt)
	}
}

func (k *checker) hold(path string, s SaleConfig, u UpstreamConfig) {
	if least := u.Timeout + holdMargin; s.Hold < least || s.Hold > 7*day {
		k.add(path+".hold", "(%s) is out of range, right is upstream.timeout + %s (%s) to 7d", formatDuration(s.Hold), formatDuration(holdMargin), formatDuration(least))
	}
	if s.Hold%time.Millisecond != 0 {
		k.add(path+".hold", "(%s) is finer than the clock of Redis, right is whole milliseconds", formatDuration(s.Hold))
	}
	k.oneOf(path+".expiry", s.Expiry, "free", "ask")
	k.oneOf(path+".settle", s.Settle, "accept", "payment")
	switch {
	case s.Settle == "accept" && s.Expiry == "free":
		k.add(path+".expiry", "(free) would sell a unit again whose order the shop made while its answer was lost, right with settle: accept is ask")
	case s.Settle == "payment" && s.Expiry == "ask":
		k.add(path+".expiry", "(ask) would hold units for ever that nobody pays, right with settle: payment is free")
	}
	k.oneOf(path+".preheat", s.Preheat, "at_start", "by_hand")
	if s.Expiry == "ask" && u.Lookup == "" {
		k.add(path+".expiry", "(ask) needs a question to ask, right is to set upstream.lookup, or settle: payment with expiry: free")
	}
}

// overlap says whether two sales may be open together. A start of now is any
// time, so such a sale keeps clear of another only by its fixed end.
func overlap(a, b SaleConfig) bool { return !endsBefore(a, b) && !endsBefore(b, a) }

func endsBefore(a, b SaleConfig) bool {
	end := a.EndsAt.At
	if end.IsZero() && !a.StartsAt.Now() {
		end = a.StartsAt.At.Add(a.EndsAt.After)
	}
	return !end.IsZero() && !b.StartsAt.Now() && !end.After(b.StartsAt.At)
}

// fullBuckets is what the largest part of a sale's stock holds.
func fullBuckets(s SaleConfig) int64 {
	n := inventory.BucketCount(s.Total, s.Buckets)
	parts, err := inventory.Split(s.Total, n, max(s.Total, 1))
	if err != nil {
		return 0 // said elsewhere
	}
	return parts[n-1]
}
