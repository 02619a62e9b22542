// Package redistest starts real Redis for tests: one server, a pair, a Sentinel
// trio, a cluster; and a proxy that loses replies on purpose. Everything runs on
// the loopback and is gone with the test, also when the test program is killed
// (then only the folders stay).
//
// Where redis-server is missing the test is skipped; with WEIR_REQUIRE_REAL=1 in
// the environment it fails.
//
// Functions that take a testing.TB must be called from the test's own goroutine
// and stop the test when they cannot do their work. Methods without one (Kill,
// Start, …) may be called from any goroutine, and report by Errorf.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience is how long the kit waits for a server to do what it was told.
const patience = 30 * time.Second

// server is the path of redis-server.
func server(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
		return path
	case os.Getenv("WEIR_REQUIRE_REAL") == "1":
		t.Fatal("redis-server is not on PATH, and WEIR_REQUIRE_REAL asks for it")
	default:
		t.Skip("redis-server is not on PATH")
	}
	return ""
}

// until asks every 20 ms and gives up after patience, or when ctx ends; then
// the error names what was waited for and what was last in the way.
func until(ctx context.Context, what string, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("redistest: waited for %s: %w", what, err)
		}
	}
}

// wait is until for the test's own goroutine.
func wait(t testing.TB, what string, ask func() error) {
	t.Helper()
	if err := until(t.Context(), what, ask); err != nil {
		t.Fatal(err)
	}
}
