// Package tasks counts goroutines that may begin while somebody already waits
// for the others to end, which [sync.WaitGroup] forbids: a request that is still
// being answered may send a script off while its server is stopping.
package tasks

import "sync"

// Group is a set of running goroutines. The zero Group is empty. All methods may
// be called from any goroutine.
type Group struct {
	mu    sync.Mutex
	count int
	quiet chan struct{} // closed when count falls to 0; nil while nobody waits
}

// Go runs f in a goroutine of its own. f must end by itself.
func (g *Group) Go(f func()) {
	g.mu.Lock()
	g.count++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 && g.quiet != nil {
		close(g.quiet)
		g.quiet = nil
	}
}

// Wait returns at the first moment when nothing runs; what begins after that
// does not hold it up.
func (g *Group) Wait() {
	g.mu.Lock()
	if g.count == 0 {
		g.mu.Unlock()
		return
	}
	if g.quiet == nil {
		g.quiet = make(chan struct{})
	}
	quiet := g.quiet
	g.mu.Unlock()
	<-quiet
}
