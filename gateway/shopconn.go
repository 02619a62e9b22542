package gateway

import (
	"errors"
	"net"
	"syscall"
)

// errStale: a kept connection to the shop was no longer clean when it was
// about to carry another request. Nothing was sent on it.
var errStale = errors.Join(errNotSent, errors.New("a kept connection was closed or held bytes that nobody asked for"))

// shopConn is a connection to the shop that may carry several requests, one
// after the other. Before each it looks whether bytes, or an end, wait unread:
// they would be taken for the answer to the next request, another visitor's.
type shopConn struct {
	net.Conn
	raw      syscall.RawConn
	answered bool
}

// Read implements net.Conn.
func (c *shopConn) Read(b []byte) (int, error) {
	c.answered = true
	return c.Conn.Read(b)
}

// Write implements net.Conn. The first write after an answer begins the next
// request.
func (c *shopConn) Write(b []byte) (int, error) {
	if c.answered && !c.clean() {
		return 0, errStale
	}
	c.answered = false
	return c.Conn.Write(b)
}

// clean peeks without waiting: only "nothing there yet" is clean.
func (c *shopConn) clean() bool {
	var peeked error
	err := c.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (errors.Is(peeked, syscall.EAGAIN) || errors.Is(peeked, syscall.EWOULDBLOCK))
}
