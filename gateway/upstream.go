package gateway

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// UpstreamConfig is the shop behind weir.
type UpstreamConfig struct {
	URL *url.URL // scheme and host; a path is refused by cmd/weir
	// Timeout bounds one forward from the first byte sent to the last read.
	Timeout, ConnectTimeout time.Duration
	// IdleTimeout must be shorter than the shop's own keep-alive, or a request
	// may meet a connection that the shop is just closing.
	IdleTimeout    time.Duration
	MaxConnections int
	ResponseLimit  int // bytes
	// ReleaseStatuses are the shop's definite refusals: the unit goes back.
	ReleaseStatuses []int
	// Lookup is the path that tells whether the shop has an order of a
	// reservation, with {id} in it: 200 yes, 404 no.
	Lookup string
	KeyID  string
}

var (
	// errNotSent: not a byte of the request has left for the shop.
	errNotSent = errors.New("nothing was sent to the shop")
	// errUnknown: the shop may have got the request.
	errUnknown = errors.New("the shop's answer is missing")
)

// shop is the client of the upstream. It sends each request at most once:
// fasthttp's own repeats are off, because a shop that read an order and hung
// up would get it five times.
type shop struct {
	cfg    UpstreamConfig
	key    []byte
	now    func() time.Time
	client *fasthttp.HostClient
}

func newShop(cfg UpstreamConfig, key []byte, now func() time.Time) *shop {
	s := &shop{cfg: cfg, key: key, now: now}
	s.client = &fasthttp.HostClient{
		Addr:                      hostPort(cfg.URL),
		IsTLS:                     cfg.URL.Scheme == "https",
		MaxConns:                  cfg.MaxConnections,
		MaxConnWaitTimeout:        cfg.ConnectTimeout,
		MaxIdemponentCallAttempts: 1,
		RetryIfErr:                func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
		ReadTimeout:               cfg.Timeout,
		WriteTimeout:              cfg.Timeout,
		MaxIdleConnDuration:       cfg.IdleTimeout,
		MaxResponseBodySize:       cfg.ResponseLimit,
		ReadBufferSize:            32 << 10,
		NoDefaultUserAgentHeader:  true,
		DisablePathNormalizing:    true,
		SecureErrorLogMessage:     true,
		Dial:                      s.dial,
	}
	return s
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// dial marks its errors: who never connected has sent nothing.
func (s *shop) dial(addr string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, s.cfg.ConnectTimeout)
	if err != nil {
		return nil, errors.Join(errNotSent, err)
	}
	return conn, nil
}

// do sends req once. Its error is errNotSent or errUnknown; a time-out also
// unwraps to fasthttp.ErrTimeout. A reply whose end is framed twice is none.
func (s *shop) do(req *fasthttp.Request, resp *fasthttp.Response, within time.Duration) error {
	err := s.client.DoTimeout(req, resp, within)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotSent):
		return err
	case errors.Is(err, fasthttp.ErrNoFreeConns), errors.Is(err, fasthttp.ErrDialTimeout):
		return errors.Join(errNotSent, err)
	}
	return errors.Join(errUnknown, err)
}

// target sets where req goes: our canonical path, and the query byte by byte
// as the client wrote it. The Host is the configured one.
func (s *shop) target(req *fasthttp.Request, path, query string) {
	req.Header.SetHost(s.cfg.URL.Host)
	uri := path
	if query != "" {
		uri += "?" + query
	}
	req.SetRequestURI(uri)
	req.URI().DisablePathNormalizing = true
	req.URI().SetScheme(s.cfg.URL.Scheme)
}

// isHop names the headers that belong to one connection and never cross
// (RFC 9110 §7.6.1), with those that fasthttp writes itself.
func isHop(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
		"te", "trailer", "transfer-encoding", "upgrade", "expect", "content-length", "host":
		return true
	}
	return false
}

// isOurs names the headers that only we may say upstream.
func isOurs(name string) bool {
	lower := strings.ToLower(name)
	switch lower {
	case "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-server",
		"x-real-ip", "x-request-id", "idempotency-key", "content-digest", "signature", "signature-input", "cookie", "via":
		return true
	}
	return strings.HasPrefix(lower, "weir-")
}

// connectionNames are the further hop-by-hop headers that Connection lists.
func connectionNames(values [][]byte) []string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(string(v), ",") {
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return names
}
