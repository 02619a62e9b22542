package admin

import (
	"context"
	"errors"

	"weir/inventory"
)

// quotaUnknown is the stage of a quota that could not be read.
const quotaUnknown inventory.QuotaStage = "unknown"

// withQuota adds what is frozen of the shop's stock for a sale. That it cannot
// be read is said rather than looking like nothing.
func (c *Console) withQuota(ctx context.Context, s sale) sale {
	q, err := c.stock.Quota(ctx, s.ID)
	switch {
	case err == nil:
		s.Quota = &q
	case !errors.Is(err, inventory.ErrUnknownSale):
		c.log.Warn("reading a quota", "sale", s.ID, "error", err)
		s.Quota = &inventory.QuotaState{Sale: s.ID, Item: s.Item, Stage: quotaUnknown, Fault: "the stock cannot be read"}
	}
	return s
}

// quotaRefusal is the answer when a preheat did not come to writing stock since
// nobody knows what the shop did; nil when that is not why.
func (c *Console) quotaRefusal(ctx context.Context, plan inventory.Sale, err error) error {
	if !errors.Is(err, inventory.ErrUnavailable) {
		return nil
	}
	q, e := c.stock.Quota(ctx, plan.ID)
	if e != nil || q.Stage != inventory.QuotaFreezing || q.Version != plan.Version || q.Fault == "" {
		return nil
	}
	return away("quota_unknown", "The shop did not say whether it set the units aside, so nothing was preheated; asking again is safe. "+q.Fault)
}
