package redisd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endpoint is how to reach a Redis.
type endpoint struct {
	Mode     string `json:"mode"`
	Network  string `json:"network"`
	Address  string `json:"address"`
	Password string `json:"password,omitempty"`
}

type health int

const (
	dead    health = iota // nobody listens, or it is not the Redis that we look for
	silent                // somebody listens but does not answer in time
	loading               // it lives but cannot serve yet
	ready                 // it answers PING
)

// probeLimit bounds one probe; a Redis on this host answers in well under a millisecond.
const probeLimit = 500 * time.Millisecond

// probe asks the Redis whether it lives. The error says why it is not ready.
func probe(ctx context.Context, e endpoint) (health, error) {
	_, err := command(ctx, e, "PING")
	var refused replyError
	switch {
	case err == nil:
		return ready, nil
	case errors.As(err, &refused) && refused.busy():
		return loading, err
	case errors.As(err, &refused), errors.Is(err, errNotRedis), nobodyListens(err):
		return dead, err
	}
	return silent, err
}

// nobodyListens tells whether the address of a probe has no listener. On a unix socket that
// does not prove the death of the server: the file may have been removed under it.
func nobodyListens(err error) bool {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.ENOTDIR, syscall.EINVAL, syscall.ENOTSOCK} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// replyError is an error that Redis answered with.
type replyError string

func (r replyError) Error() string { return "redis answered: " + string(r) }

// busy tells whether the error is one of a living server that will serve later.
func (r replyError) busy() bool {
	for _, p := range []string{"LOADING", "BUSY", "MASTERDOWN", "MISCONF"} {
		if strings.HasPrefix(string(r), p) {
			return true
		}
	}
	return false
}

var errNotRedis = errors.New("whoever listens there does not speak the Redis protocol")

// command runs one command on a connection of its own. It is used instead of a go-redis
// client because that hides which error came from the dial, and dials on in the background.
func command(ctx context.Context, e endpoint, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, e.Network, e.Address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t)
	}
	r := bufio.NewReader(conn)
	if e.Password != "" {
		if _, err := exchange(conn, r, "AUTH", e.Password); err != nil {
			return "", err
		}
	}
	return exchange(conn, r, args...)
}

func exchange(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", replyError(text)
	case '$':
		return readBulk(r, text)
	}
	return "", errNotRedis
}

// maxBulk is far above the INFO section, the only bulk that we ask for.
const maxBulk = 1 << 20

func readBulk(r io.Reader, length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > maxBulk {
		return "", errNotRedis
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	return string(b), nil
}

// serverVersion returns redis_version of INFO; weir needs 7 or newer.
func serverVersion(ctx context.Context, e endpoint) (string, error) {
	info, err := command(ctx, e, "INFO", "server")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			major, _, _ := strings.Cut(v, ".")
			if n, err := strconv.Atoi(major); err != nil || n < 7 {
				return "", fmt.Errorf("it is %s, and weir needs 7 or newer", v)
			}
			return v, nil
		}
	}
	return "", errors.New("INFO names no redis_version")
}
