// Command bench measures weir beside the least that could stand in its place, in the same run and on
// the same machine: refusals beside an empty fiber handler, a reserve beside PING and a bare DECR
// script. It writes bench/RESULTS.md. Run it as "make bench" on an idle machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// options are what a person may change about a run.
type options struct {
	out     string
	profile string
	only    string

	conns int           // keep-alive connections of the load
	pairs int           // measured pairs of a refusal, rounds of a reserve
	turn  time.Duration // length of one turn of a refusal
	step  time.Duration // length of one turn of a reserve
}

func main() {
	if size, ok := emptySize(os.Args); ok {
		os.Exit(serveEmpty(size))
	}
	var o options
	flag.StringVar(&o.out, "o", "bench/RESULTS.md", "`file` to write")
	flag.StringVar(&o.profile, "profile", "", "also write a CPU profile of weir under the limited user's load to this `file`")
	flag.StringVar(&o.only, "only", "", "measure only refusals or reserves, and write no file")
	flag.IntVar(&o.conns, "conns", 32, "keep-alive connections")
	flag.IntVar(&o.pairs, "pairs", 5, "pairs of turns")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "length of one turn under refusals")
	flag.DurationVar(&o.step, "step", time.Second, "length of one turn of reserves")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures everything and writes the report; a run that fails writes none.
func run(ctx context.Context, o options) error {
	if o.conns < 1 || o.pairs < 1 || o.turn <= 0 || o.step <= 0 {
		return errors.New("conns, pairs, turn and step must be above 0")
	}
	if o.only != "" && o.only != "refusals" && o.only != "reserves" {
		return errors.New("-only is refusals or reserves")
	}
	redisServer, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not on PATH; a reserve is only measured on a real one (apt-get install redis-server)")
	}
	r := report{opt: o, host: describeHost(ctx, redisServer)}
	before, err := readUsage()
	if err != nil {
		return err
	}
	if o.only != "reserves" {
		if r.refusals, err = measureRefusals(ctx, o); err != nil {
			return fmt.Errorf("refusals: %w", err)
		}
	}
	if o.only != "refusals" {
		if r.reserves, err = measureReserves(ctx, o, redisServer); err != nil {
			return fmt.Errorf("reserves: %w", err)
		}
	}
	after, err := readUsage()
	if err != nil {
		return err
	}
	r.others = after.othersSince(before)
	text := r.markdown()
	fmt.Print(text)
	if o.only != "" {
		return nil
	}
	if err := os.WriteFile(o.out, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// say tells the person at the terminal what is being measured.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
