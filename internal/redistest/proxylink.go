package redistest

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// link is one client's connection and the one to the server behind it. One
// goroutine reads commands, another replies; expected joins them.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{}

	mu       sync.Mutex
	server   net.Conn
	closed   bool
	expected []*Fault // one for each reply that is due, nil: no harm
	last     bool     // no command follows those that are due
	raw      bool     // replies are no longer counted
}

func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.close()
	network := "tcp"
	if strings.HasPrefix(l.proxy.target, "/") {
		network = "unix"
	}
	if l.proxy.isDark() {
		_, _ = io.Copy(io.Discard, l.client)
		return
	}
	server, err := net.DialTimeout(network, l.proxy.target, dialTimeout)
	if err != nil || !l.attach(server) {
		return
	}
	l.proxy.running.Go(func() {
		l.replies(bufio.NewReader(server))
		l.close()
	})
	if l.commands(bufio.NewReader(l.client), bufio.NewWriter(server)) {
		<-l.done
	}
}

// attach tells whether the link is still open.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// commands passes commands on until the client hangs up, or one is cut; then
// the replies that are due are still awaited.
func (l *link) commands(r *bufio.Reader, w *bufio.Writer) (awaited bool) {
	for {
		raw, name, err := readCommand(r)
		if err != nil {
			return false
		}
		fault, dark := l.proxy.meet(name)
		if dark {
			_, _ = io.Copy(io.Discard, r)
			return false
		}
		if fault != nil && fault.action == cutBefore {
			fault.hits.Add(1)
			return w.Flush() == nil && l.finish()
		}
		streams := isStream(name)
		l.expect(fault, streams)
		_, _ = w.Write(raw) // an error shows in Flush
		if r.Buffered() > 0 && !streams {
			continue
		}
		if w.Flush() != nil {
			return false
		}
		if streams {
			_, _ = io.Copy(l.server, r)
			return false
		}
	}
}

// isStream: what follows is no longer one reply for each command.
func isStream(name string) bool {
	switch name {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "PSYNC", "SYNC":
		return true
	}
	return false
}

func (l *link) expect(f *Fault, raw bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw = l.raw || raw
	l.expected = append(l.expected, f)
}

// finish tells whether replies are still due.
func (l *link) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = true
	return len(l.expected) > 0
}

// next is what to do to the reply that has come.
func (l *link) next() (f *Fault, raw bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.expected) > 0 {
		f = l.expected[0]
	}
	return f, l.raw && len(l.expected) <= 1
}

// passed takes the reply off the list, and tells whether it was the last.
func (l *link) passed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.expected) > 0 {
		l.expected = l.expected[1:]
	}
	return l.last && len(l.expected) == 0
}

func (l *link) replies(r *bufio.Reader) {
	w := bufio.NewWriter(l.client)
	for {
		raw, push, err := readReply(r)
		if err != nil {
			return
		}
		var fault *Fault
		stream := false
		if !push {
			fault, stream = l.next()
		}
		if fault != nil && !l.harm(fault, r, w) {
			return
		}
		if l.proxy.isDark() {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		_, _ = w.Write(raw) // an error shows in Flush
		if (r.Buffered() == 0 || stream) && w.Flush() != nil {
			return
		}
		if stream {
			_, _ = io.Copy(l.client, r)
			return
		}
		if !push && l.passed() {
			_ = w.Flush()
			return
		}
	}
}

// harm does what the fault says, after the replies before it were passed on. It
// tells whether the reply may pass.
func (l *link) harm(f *Fault, r *bufio.Reader, w *bufio.Writer) bool {
	if w.Flush() != nil {
		return false
	}
	f.hits.Add(1)
	switch f.action {
	case hangReply:
		_, _ = io.Copy(io.Discard, r)
		return false
	case delayReply:
		late := time.NewTimer(f.delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-l.done:
			return false
		}
		return true
	default:
		return false
	}
}
