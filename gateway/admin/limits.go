package admin

import (
	"net/http"
	"strconv"
)

const (
	defaultTop = 10 // offenders of each limit that are listed
	mostTop    = 100
)

// Limit is one limit layer as this replica sees it. Counters run since its start.
type Limit struct {
	Layer       string  `json:"layer"`
	Mode        string  `json:"mode"`  // enforce, shadow or off
	Scope       string  `json:"scope"` // of the rate: replica or cluster
	Rate        float64 `json:"rate"`  // events in a period for each key; 0 = no rate
	Period      string  `json:"period"`
	Burst       int     `json:"burst"`
	Concurrency int     `json:"concurrency"` // at once for each key; 0 = no such limit
	Size        int     `json:"size"`        // most keys remembered

	Keys       int    `json:"keys"`
	InFlight   int    `json:"in_flight"`
	Allowed    uint64 `json:"allowed"`
	Refused    uint64 `json:"refused"`
	Shadowed   uint64 `json:"shadowed"`   // would have been refused
	Evicted    uint64 `json:"evicted"`    // keys that had refilled, forgotten for new ones
	Overflowed uint64 `json:"overflowed"` // found no room and shared a bucket
	Away       int    `json:"away"`       // keys whose Redis does not answer

	Top []LimitOffender `json:"top"` // most refused of late, the first one most
}

// LimitOffender is a key that was refused often of late: refusals count half
// after each minute. Refused is too high by at most Doubt.
type LimitOffender struct {
	Key     string `json:"key"`
	Refused uint64 `json:"refused"`
	Doubt   uint64 `json:"doubt"`
}

// listLimits answers GET /api/v1/limits.
func (c *Console) listLimits(cl *call) (any, error) {
	if c.limits == nil {
		return nil, refuse(http.StatusNotImplemented, "not_configured", "This weir has no limits to show.")
	}
	top := defaultTop
	if text := cl.query("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostTop {
			return nil, badRequest("Parameter %q: value %q is not a number from 0 to %d.", "top", shorten(text), mostTop)
		}
		top = n
	}
	return map[string]any{"limits": c.limits(top)}, nil
}
