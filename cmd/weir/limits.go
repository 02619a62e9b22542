package main

import (
	"weir/gateway/admin"
	"weir/limiter"
)

// limits are the limit layers as the private API shows them.
func (p *program) limits(top int) []admin.Limit {
	var all []admin.Limit
	for _, l := range p.gateway.Limits(top) {
		shown := admin.Limit{
			Layer: l.Layer.Name, Mode: modeOf(l.Layer), Scope: string(l.Layer.Scope),
			Rate: l.Rate, Period: l.Period.String(), Burst: l.Burst, Concurrency: l.Concurrency, Size: l.Size,
			Keys: l.Keys, InFlight: l.InFlight, Allowed: l.Allowed, Refused: l.Refused, Shadowed: l.Shadowed,
			Evicted: l.Evicted, Overflowed: l.Overflowed, Away: l.Away, Top: []admin.LimitOffender{},
		}
		for _, o := range l.Top {
			shown.Top = append(shown.Top, admin.LimitOffender(o))
		}
		all = append(all, shown)
	}
	return all
}

func modeOf(l limiter.Layer) string {
	switch {
	case l.Off:
		return "off"
	case l.Shadow:
		return "shadow"
	}
	return "enforce"
}
