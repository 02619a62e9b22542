package tasks

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestGroup_WaitReturnsWhenNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		g.Wait() // nothing ever ran
		first, second := make(chan struct{}), make(chan struct{})
		var over atomic.Int32
		g.Go(func() { <-first })
		for range 2 {
			go func() { g.Wait(); over.Add(1) }()
		}
		synctest.Wait()
		g.Go(func() { <-second }) // while somebody waits
		close(first)
		synctest.Wait()
		if n := over.Load(); n != 0 {
			t.Fatalf("%d of 2 returned while one still runs", n)
		}
		close(second)
		synctest.Wait()
		if n := over.Load(); n != 2 {
			t.Fatalf("%d of 2 returned", n)
		}
	})
}

// Requests that come while a server is stopping begin tasks beside its Wait.
func TestGroup_MayStartBesideAWait(t *testing.T) {
	var g Group
	var all sync.WaitGroup
	var ran atomic.Int32
	for range 4 {
		all.Go(func() {
			for range 500 {
				g.Go(func() {
					runtime.Gosched() // or no Wait would find it running
					ran.Add(1)
				})
			}
		})
		all.Go(func() {
			for range 500 {
				g.Wait()
			}
		})
	}
	all.Wait()
	g.Wait()
	if n := ran.Load(); n != 2000 {
		t.Errorf("%d of 2000 ran", n)
	}
}
