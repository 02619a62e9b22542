package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands in front of one Redis address, counts the commands that pass,
// and harms them as its Faults say. It speaks no TLS. A connection that
// subscribes, monitors or replicates is passed through unread from there on.
type Proxy struct {
	Faults
	t      testing.TB
	target string
	addr   string
	shared *Faults // of a set of proxies; may be nil

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	dark     bool
	counts   map[string]int64
	running  sync.WaitGroup
}

// NewProxy starts a proxy in front of target, which is host:port, or the path
// of a unix socket.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, nil)
}

func newProxy(t testing.TB, target string, shared *Faults) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, shared: shared, addr: loopback(reservePort(t)),
		links: map[*link]struct{}{}, counts: map[string]int64{}}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Refuse()
		p.running.Wait()
	})
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// Count is how many commands of that name, in upper case, clients have sent,
// harmed ones included.
func (p *Proxy) Count(name string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[name]
}

// Counts is Count for all names.
func (p *Proxy) Counts() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := make(map[string]int64, len(p.counts))
	for name, n := range p.counts {
		counts[name] = n
	}
	return counts
}

// Reset sets all counts to zero. Faults stay.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

// DropAll turns the way into a black hole until Heal: connections are taken and
// stay open, no request that is sent from now on arrives, and no reply comes
// back. A stream of replication that flows already goes on: use Refuse for that.
func (p *Proxy) DropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = true
}

// Refuse closes all connections, and refuses new ones until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.closeLinks()
}

// Heal ends DropAll and Refuse, and clears the proxy's own faults. Connections
// that were in the dark are closed: their stream has a hole.
func (p *Proxy) Heal() {
	p.t.Helper()
	p.ClearFaults()
	p.mu.Lock()
	if p.dark {
		p.dark = false
		p.closeLinks()
	}
	refusing := p.listener == nil
	p.mu.Unlock()
	if !refusing {
		return
	}
	if err := p.listen(); err != nil {
		p.t.Errorf("redistest: heal: %v", err)
	}
}

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(client, l)
		}
	})
	return nil
}

// serve starts a link, unless its listener was closed meanwhile.
func (p *Proxy) serve(client net.Conn, from net.Listener) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != from {
		_ = client.Close()
		return
	}
	p.links[l] = struct{}{}
	p.running.Go(l.run)
}

// closeLinks is called with the lock held.
func (p *Proxy) closeLinks() {
	for l := range p.links {
		l.close()
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) isDark() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dark
}

// meet counts a command and says what is to be done to it.
func (p *Proxy) meet(name string) (f *Fault, dark bool) {
	p.mu.Lock()
	p.counts[name]++
	dark = p.dark
	p.mu.Unlock()
	if dark {
		return nil, true
	}
	if f = p.take(name); f == nil && p.shared != nil {
		f = p.shared.take(name)
	}
	return f, false
}
