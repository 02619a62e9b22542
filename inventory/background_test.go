package inventory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestBackground_WaitReturnsWhenNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b background
		b.Wait() // nothing ever ran
		first, second := make(chan struct{}), make(chan struct{})
		var over atomic.Int32
		b.Go(func() { <-first })
		for range 2 {
			go func() { b.Wait(); over.Add(1) }()
		}
		synctest.Wait()
		b.Go(func() { <-second }) // while somebody waits
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

// Orders that come while Run is ending start flights beside its Wait.
func TestBackground_MayStartBesideAWait(t *testing.T) {
	var b background
	var all sync.WaitGroup
	var ran atomic.Int32
	for range 4 {
		all.Go(func() {
			for range 500 {
				b.Go(func() {
					runtime.Gosched() // or no Wait would find it running
					ran.Add(1)
				})
			}
		})
		all.Go(func() {
			for range 500 {
				b.Wait()
			}
		})
	}
	all.Wait()
	b.Wait()
	if n := ran.Load(); n != 2000 {
		t.Errorf("%d of 2000 ran", n)
	}
}
