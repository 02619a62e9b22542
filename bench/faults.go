package main

import (
	"context"
	"fmt"
	"testing"

	"weir/internal/stormtest"
)

// faultCount is one round of one harm.
type faultCount struct {
	plan stormtest.Plan
	got  stormtest.Counts
}

// faultPlans are the harms of the report.
func faultPlans() []stormtest.Plan {
	plans := []stormtest.Plan{
		{Harm: stormtest.Kill}, {Harm: stormtest.Kill, Wait: 1},
		{Harm: stormtest.KillBehind}, {Harm: stormtest.KillBehind, Wait: 1}, {Harm: stormtest.KillBehind, Quiet: true}, {Harm: stormtest.KillBoth},
		{Harm: stormtest.Cut, Wait: 1}, {Harm: stormtest.Migrate},
	}
	for i := range plans {
		plans[i].Buyers, plans[i].Units = 32, 9000
	}
	return plans
}

func measureFaults(ctx context.Context, o options) ([]faultCount, error) {
	var all []faultCount
	for _, p := range faultPlans() {
		for i := range o.rounds {
			say("faults: %s, round %d", p.Name(), i+1)
			c := faultCount{plan: p}
			if err := withTester(ctx, func(t testing.TB) { c.got = stormtest.Run(t, p) }); err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", p.Name(), i+1, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}
