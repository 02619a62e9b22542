// Command bench measures weir beside the least that could stand in its place, in the same run and on
// the same machine: refusals beside an empty fiber handler, reserves beside PING, bare scripts and each
// other; and it counts what faults of a real cluster do to a sale. It writes bench/RESULTS.md. Run it as
// "make bench" on an idle machine; "go run ./bench -only stock,lone" measures those sections alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// options are what a person may change about a run.
type options struct {
	out     string
	profile string
	only    string

	conns int           // keep-alive connections of the load
	pairs int           // measured pairs of a refusal, rounds of a reserve and of the stock
	turn  time.Duration // length of one turn of a refusal
	step  time.Duration // length of one turn of the stock; half of it is one of a reserve

	rounds int // of each harm
}

func main() {
	if size, ok := emptySize(os.Args); ok {
		os.Exit(serveEmpty(size))
	}
	var o options
	flag.StringVar(&o.out, "o", "bench/RESULTS.md", "`file` to write")
	flag.StringVar(&o.profile, "profile", "", "also write a CPU profile of weir under the limited user's load to this `file`")
	flag.StringVar(&o.only, "only", "", "measure only these `sections`, comma-separated, and write no file: "+strings.Join(sectionNames(), " "))
	flag.IntVar(&o.conns, "conns", 32, "keep-alive connections")
	flag.IntVar(&o.pairs, "pairs", 5, "pairs of turns")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "length of one turn under refusals")
	flag.DurationVar(&o.step, "step", time.Second, "length of one turn of reserves and of the stock")
	flag.IntVar(&o.rounds, "rounds", 2, "rounds of each harm to a cluster")
	flag.Parse()
	redis.SetLogger(quiet{}) // servers are killed here on purpose

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
	if o.conns < 1 || o.pairs < 1 || o.rounds < 1 || o.turn <= 0 || o.step <= 0 {
		return errors.New("conns, pairs, rounds, turn and step must be above 0")
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
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
	b := bench{opt: o, redisServer: redisServer, report: &r}
	for _, sec := range chosen {
		if err := sec.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", sec.name, err)
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

// quiet drops what the Redis client logs.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// say tells the person at the terminal what is being measured.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
