package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of run.
const (
	exitOK    = 0
	exitError = 1 // the act failed
	exitUsage = 2 // it was not asked in a way that weir understands
)

// run is the whole program: it parses args, acts until done or ctx ends, and
// gives the exit code. Errors go to stderr, one line each, as `weir: …`.
func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(&app{env: env, out: stdout, errOut: stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	report(stderr, err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// report writes an error that joins several as one line each.
func report(w io.Writer, err error) {
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(w, "weir: %s\n", text)
		}
	}
}

// app is what every verb needs from outside.
type app struct {
	env    func(string) string
	out    io.Writer
	errOut io.Writer
}

// usageError marks an error of the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage makes the error of an argument rule a usageError.
func usage(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}

// group is a verb that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: usage(cobra.NoArgs)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usagef("%s: say what to do; see: %s --help", cmd.Name(), cmd.CommandPath())
	}
	cmd.AddCommand(verbs...)
	return cmd
}
