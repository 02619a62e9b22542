package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// errStopped ends what runs under a tester.
var errStopped = errors.New("stopped")

// tester lends this program to the kit that starts clusters for tests. It has what the kit uses of a
// testing.TB; the rest is not there.
type tester struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	faults   []error
	cleanups []func()
}

// withTester runs do as a test: what do fails with is the error, and all that it started is gone at the end.
func withTester(ctx context.Context, do func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(ctx)
	t := &tester{ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer t.clean()
		defer cancel()
		defer func() {
			if r := recover(); r != nil && r != errStopped {
				panic(r)
			}
		}()
		do(t)
	}()
	<-ended
	return errors.Join(t.faults...)
}

// clean undoes in turn, the last thing first.
func (t *tester) clean() {
	t.mu.Lock()
	all := t.cleanups
	t.mu.Unlock()
	for _, undo := range slices.Backward(all) {
		undo()
	}
}

func (t *tester) Helper()                  {}
func (t *tester) Context() context.Context { return t.ctx }
func (t *tester) Name() string             { return "bench" }
func (t *tester) Logf(f string, a ...any)  { say(f, a...) }
func (t *tester) Fatal(a ...any)           { t.fail(errors.New(fmt.Sprint(a...))); panic(errStopped) }
func (t *tester) Skip(a ...any)            { t.Fatal(a...) } // nothing is left out of a report in silence
func (t *tester) Errorf(f string, a ...any) {
	t.fail(fmt.Errorf(f, a...))
}

func (t *tester) Fatalf(f string, a ...any) {
	t.fail(fmt.Errorf(f, a...))
	panic(errStopped)
}

func (t *tester) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *tester) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, err)
}
