package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// answer is one HTTP response; its body lies in the connection's buffer until the next one.
type answer struct {
	status int
	body   []byte
}

// conn is one keep-alive connection. It reads just what the servers here send (HTTP/1.1 with a
// Content-Length), because the load shares the cores with the server and must be cheap.
type conn struct {
	net.Conn
	in   *bufio.Reader
	body []byte
}

func dial(ctx context.Context, addr string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 16<<10)}, nil
}

// do sends the request and reads its answer whole.
func (c *conn) do(request []byte) (answer, error) {
	if _, err := c.Write(request); err != nil {
		return answer{}, err
	}
	first, err := c.in.ReadSlice('\n')
	if err != nil {
		return answer{}, err
	}
	if len(first) < 12 || !bytes.HasPrefix(first, []byte("HTTP/1.1 ")) {
		return answer{}, fmt.Errorf("no HTTP/1.1 status line: %q", first)
	}
	a := answer{}
	if a.status, err = strconv.Atoi(string(first[9:12])); err != nil {
		return answer{}, fmt.Errorf("status line %q: %w", first, err)
	}
	length, err := c.contentLength()
	if err != nil {
		return answer{}, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	a.body = c.body[:length]
	_, err = io.ReadFull(c.in, a.body)
	return a, err
}

// maxBody bounds what one answer may cost this process.
const maxBody = 1 << 20

func (c *conn) contentLength() (int, error) {
	name := []byte("content-length:")
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], name) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(name):]))); err != nil {
				return 0, fmt.Errorf("header %q: %w", line, err)
			}
		}
	}
	if length < 0 || length > maxBody {
		return 0, errors.New("an answer without a usable Content-Length")
	}
	return length, nil
}

// tally is what one turn of load counted.
type tally struct {
	requests, wanted int
	took             time.Duration
	cpu              time.Duration // of the server's process
}

func (t tally) perSecond() float64 { return float64(t.requests) / t.took.Seconds() }

// cpuMicros is the server's processor time for each request.
func (t tally) cpuMicros() float64 {
	return float64(t.cpu.Microseconds()) / float64(max(t.requests, 1))
}

// load keeps n connections busy for d, one request in flight on each.
func load(ctx context.Context, s *server, request []byte, n int, d time.Duration, want func(answer) bool) (tally, error) {
	conns := make([]*conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range n {
		c, err := dial(ctx, s.addr)
		if err != nil {
			return tally{}, err
		}
		conns = append(conns, c)
	}
	before, err := cpuTime(s.pid)
	if err != nil {
		return tally{}, err
	}
	counts, faults := make([]tally, n), make([]error, n)
	started := time.Now()
	var all sync.WaitGroup
	for i, c := range conns {
		_ = c.SetDeadline(started.Add(d + 10*time.Second)) // a server that hangs must not hang us
		all.Go(func() { counts[i], faults[i] = c.repeat(ctx, request, started.Add(d), want) })
	}
	all.Wait()
	sum := tally{took: time.Since(started)}
	after, err := cpuTime(s.pid)
	sum.cpu = after - before
	for _, c := range counts {
		sum.requests += c.requests
		sum.wanted += c.wanted
	}
	return sum, errors.Join(append(faults, err, ctx.Err())...)
}

func (c *conn) repeat(ctx context.Context, request []byte, until time.Time, want func(answer) bool) (tally, error) {
	var t tally
	for time.Now().Before(until) && ctx.Err() == nil {
		a, err := c.do(request)
		if err != nil {
			return t, err
		}
		t.requests++
		if want(a) {
			t.wanted++
		}
	}
	return t, nil
}
