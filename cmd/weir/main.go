// Command weir is the flash-sale gateway and its tools: serve runs it, check
// validates its configuration, sale and ban talk to the private API of a running one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal cancels ctx and drains. stop gives the signals their usual
	// effect back, so a later one ends the process at once.
	// A second one within a moment is the same stop, told twice (a terminal, a
	// supervisor): it must not end us before our Redis has ended.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
