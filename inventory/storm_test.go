package inventory_test

import (
	"log/slog"
	"os"
	"testing"

	"weir/internal/stormtest"
)

// TestStorm_NothingIsOversoldOrLostUnseen plays one round of the main harms; WEIR_LONG=1 plays all, three
// times. bench/RESULTS.md counts them all.
func TestStorm_NothingIsOversoldOrLostUnseen(t *testing.T) {
	plans, rounds := []stormtest.Plan{
		{Harm: stormtest.Kill, Wait: 1}, {Harm: stormtest.KillBehind}, {Harm: stormtest.KillBoth, Quiet: true},
		{Harm: stormtest.Cut, Wait: 1}, {Harm: stormtest.Migrate},
	}, 1
	if os.Getenv("WEIR_LONG") == "1" {
		plans, rounds = append(plans,
			stormtest.Plan{Harm: stormtest.Kill}, stormtest.Plan{Harm: stormtest.KillBehind, Wait: 1},
			stormtest.Plan{Harm: stormtest.KillBehind, Quiet: true}, stormtest.Plan{Harm: stormtest.KillBoth},
			stormtest.Plan{Harm: stormtest.Migrate, Wait: 1}), 3
	}
	for _, p := range plans {
		t.Run(p.Name(), func(t *testing.T) {
			p.Buyers, p.Units = 32, 9000
			if testing.Verbose() {
				p.Console = slog.New(slog.NewTextHandler(t.Output(), nil))
			}
			for range rounds {
				judge(t, p, stormtest.Run(t, p))
			}
		})
	}
}

// judge says what no fault may do.
func judge(t *testing.T, p stormtest.Plan, c stormtest.Counts) {
	t.Helper()
	t.Logf("%+v", c)
	if c.Oversold != 0 || c.Undetected != 0 || !c.Clean {
		t.Errorf("oversold %d, undetected %d, audit clean: %t", c.Oversold, c.Undetected, c.Clean)
	}
	if p.Wait > 0 && c.Lost > 0 {
		t.Errorf("%d wins lost although a replica had confirmed them", c.Lost)
	}
	if c.Lost != c.Restored {
		t.Errorf("%d wins lost, %d put back", c.Lost, c.Restored)
	}
	if int64(c.Told) != p.Units && !p.Quiet {
		t.Errorf("%d of %d units were sold", c.Told, p.Units)
	}
}
