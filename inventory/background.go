package inventory

import "sync"

// background counts the flights and gatherers on their way; each has a
// deadline. A [sync.WaitGroup] does not serve: an order may start a flight
// while Run, which has been told to end, already waits for the others.
type background struct {
	mu    sync.Mutex
	count int
	quiet chan struct{} // closed when count falls to 0; nil while nobody waits
}

// Go runs f in a goroutine of its own.
func (b *background) Go(f func()) {
	b.mu.Lock()
	b.count++
	b.mu.Unlock()
	go func() {
		defer b.done()
		f()
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count--; b.count == 0 && b.quiet != nil {
		close(b.quiet)
		b.quiet = nil
	}
}

// Wait returns at the first moment when nothing runs; what starts after that
// does not hold it up.
func (b *background) Wait() {
	b.mu.Lock()
	if b.count == 0 {
		b.mu.Unlock()
		return
	}
	if b.quiet == nil {
		b.quiet = make(chan struct{})
	}
	quiet := b.quiet
	b.mu.Unlock()
	<-quiet
}
