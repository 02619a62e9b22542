// Package problem is the body of a refusal: RFC 9457 problem details with
// weir's own members.
package problem

import "encoding/json"

// ContentType of an encoded Problem.
const ContentType = "application/problem+json"

// Problem is one refusal as a client reads it. Code is stable and documented
// in docs/api.md; Detail is for people and never carries a private cause.
type Problem struct {
	Type       string         `json:"type"`
	Title      string         `json:"title"`
	Status     int            `json:"status"`
	Code       string         `json:"code"`
	Detail     string         `json:"detail,omitempty"`
	RequestID  string         `json:"request_id,omitempty"`
	RetryAfter int            `json:"retry_after,omitempty"` // whole seconds
	Extra      map[string]any `json:"-"`                     // further members, flattened
}

// JSON encodes p; Extra members stand beside the fixed ones and never replace them.
func (p Problem) JSON() []byte {
	if p.Type == "" {
		p.Type = "about:blank"
	}
	fixed, err := json.Marshal(p)
	if err != nil || len(p.Extra) == 0 {
		return fixed
	}
	all := make(map[string]any, len(p.Extra)+8)
	for k, v := range p.Extra {
		all[k] = v
	}
	var own map[string]any
	if json.Unmarshal(fixed, &own) != nil {
		return fixed
	}
	for k, v := range own {
		all[k] = v
	}
	out, err := json.Marshal(all)
	if err != nil {
		return fixed
	}
	return out
}
