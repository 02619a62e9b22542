package inventory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// link is a TCP proxy before a Redis that can lose replies.
type link struct {
	addr    string
	lose    atomic.Bool  // swallow the next replies and hang up
	hang    atomic.Bool  // swallow them and stay silent
	scripts atomic.Int64 // EVALSHA and EVAL that went through
}

func newLink(t *testing.T, network, to string) *link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &link{addr: ln.Addr().String()}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial(network, to)
			if err != nil {
				c.Close()
				continue
			}
			var armed atomic.Bool // a script went through: only its reply is lost, not a handshake's
			go l.pump(s, c, func(b []byte) bool {
				if n := bytes.Count(b, []byte("\r\nevalsha\r\n")) + bytes.Count(b, []byte("\r\neval\r\n")); n > 0 {
					l.scripts.Add(int64(n))
					armed.Store(true)
				}
				return true
			})
			go l.pump(c, s, func([]byte) bool {
				if armed.Load() && l.lose.Load() {
					c.Close()
				}
				return !armed.Load() || !l.lose.Load() && !l.hang.Load()
			})
		}
	}()
	return l
}

func (l *link) pump(dst, src net.Conn, pass func([]byte) bool) {
	defer dst.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && pass(buf[:n]) {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (v *env) linked(t *testing.T) *link {
	if v.mini != nil {
		return newLink(t, "tcp", v.mini.Addr())
	}
	return newLink(t, "unix", v.real.socket)
}

// The script ran, its answer did not arrive. The caller learns
// that the outcome is unknown, nothing is sent twice, and asking again with the
// same id tells what happened.
func TestStock_H04_ALostReplyIsUnknownAndTheClientSendsNothingTwice(t *testing.T) { // T-15, H-2
	clients := map[string]func(addr string) redis.UniversalClient{
		"one server": func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: time.Second})
		},
		"cluster client": func(addr string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: time.Second,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
				},
			})
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			eachRedis(t, func(t *testing.T, v *env) {
				sale := v.openSale(t, 10, nil)
				v.won(t, sale, "warm") // the script is cached
				l := v.linked(t)
				c := client(l.addr)
				t.Cleanup(func() { c.Close() })
				s := newStore(t, c, v.real == nil)
				must(t, s.Refresh(t.Context()))
				for i, broken := range []*atomic.Bool{&l.lose, &l.hang} {
					o := order(sale, "ann", 1)
					before := l.scripts.Load()
					broken.Store(true)
					_, err := s.Reserve(t.Context(), o)
					broken.Store(false)
					if !errors.Is(err, ErrOutcomeUnknown) {
						t.Fatalf("got %v", err)
					}
					if n := l.scripts.Load() - before; n != 1 {
						t.Fatalf("the script was sent %d times", n)
					}
					res, err := s.Reserve(t.Context(), o)
					must(t, err)
					if res.Code != Known || res.Reservation.State != Reserved {
						t.Fatalf("%+v", res)
					}
					v.level(t, sale.ID, int64(8-i), int64(2+i), 0)
				}
				checkInvariant(t, v.store, sale.ID)
			})
		})
	}
}

func TestErrors_WhatWasCertainlyNotExecutedIsUnavailable(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 10, nil)
	for _, reply := range []string{
		"LOADING Redis is loading", "READONLY You can't write", "OOM command not allowed", "MOVED 1 127.0.0.1:1",
		"ASK 1 127.0.0.1:1", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS Not enough", "MISCONF", "BUSY", "NOPERM",
	} {
		v.mini.SetError(reply)
		_, err := v.store.Reserve(t.Context(), order(sale, "ann", 1))
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v", reply, err)
		}
	}
	v.mini.SetError("")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.store.Reserve(gone, order(sale, "ann", 1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("context over before sending: %v", err)
	}
	v.level(t, sale.ID, 10, 0, 0)
	v.mini.Close()
	if _, err := v.store.Reserve(t.Context(), order(sale, "ann", 1)); err == nil {
		t.Error("no error without a server")
	}
}

func TestErrors_Mapping(t *testing.T) {
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded, redis.ErrPoolTimeout, redis.ErrClosed,
		&net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		if got := mapError(err); !errors.Is(got, ErrUnavailable) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: errors.New("reset")}, errors.New("?")} {
		if got := mapError(err); !errors.Is(got, ErrOutcomeUnknown) || errors.Is(got, ErrUnavailable) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestErrors_AFullPoolIsUnavailable(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 10, nil)
	opt := *v.client.Options()
	opt.PoolSize, opt.PoolTimeout = 1, 20*time.Millisecond
	c := redis.NewClient(&opt)
	t.Cleanup(func() { c.Close() })
	s := newStore(t, c, false)
	must(t, s.Refresh(t.Context()))
	conn := c.Conn() // holds the only connection
	must(t, conn.Ping(t.Context()).Err())
	defer conn.Close()
	if _, err := s.Reserve(t.Context(), order(sale, "ann", 1)); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(short, order(sale, "ann", 1)); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	v.level(t, sale.ID, 10, 0, 0)
}

func TestErrors_AFailedMendingOfAStaleBucketIsUnavailableAndNotUnknown(t *testing.T) {
	v := memoryEnv(t)
	sale := v.openSale(t, 10, nil)
	v.won(t, sale, "warm") // the script is cached
	f := &fault{from: never, applied: true}
	s := v.faulty(t, f)
	must(t, s.Refresh(t.Context()))
	must(t, s.redis.Ping(t.Context()).Err()) // pipelines have connections of their own
	must(t, v.client.HSet(t.Context(), v.bucket(sale.ID).headKey(), "gen", "99").Err())
	f.next(2) // the script answers -5, then the link breaks
	_, err := s.Reserve(t.Context(), order(sale, "ann", 1))
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	f.next(never) // the link is back, the bucket stays stale
	if _, err := s.Reserve(t.Context(), order(sale, "ann", 1)); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
}
