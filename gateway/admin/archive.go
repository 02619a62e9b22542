package admin

import (
	"context"
	"errors"
	"net/http"

	"weir/inventory"
)

// Archived is what one copy of a sale to the archive did.
type Archived struct {
	Sale     string `json:"sale"`
	Rows     int64  `json:"rows"`     // reservations copied
	Open     int64  `json:"open"`     // of them still reserved
	Complete bool   `json:"complete"` // the archive has all there is
	Missing  string `json:"missing"`  // why it is not complete
	Deleted  bool   `json:"deleted"`  // the sale's keys in Redis are gone now
}

// archiveSale answers POST /api/v1/sales/{id}/archive.
func (c *Console) archiveSale(cl *call) (act, error) {
	if err := cl.readReason(); err != nil {
		return nil, err
	}
	if c.archiveWith == nil {
		return nil, refuse(http.StatusNotImplemented, "not_configured", "This weir has no archive: set archive.url.")
	}
	id := cl.param("id")
	return func(ctx context.Context) (any, error) {
		done, err := c.archiveWith(ctx, id)
		if errors.Is(err, inventory.ErrUnknownSale) {
			return nil, c.preheatedOnly(ctx, id, err)
		}
		return done, err
	}, nil
}
