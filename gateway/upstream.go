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
	// Orders is the path of the list of a sale's orders, with {sale} in it, see
	// ShopOrders; "" = the shop has none.
	Orders string
	// Quota is the path of what is frozen of an item for a sale, with {item} and
	// {sale} in it, see ShopQuota; "" = nothing is frozen.
	Quota string
	// OrderPage is the shop's page of an order, with {order} in it; "" names none.
	OrderPage string
	KeyID     string
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
//
// Orders, and questions about them, never share a connection: each has one of
// its own, so that no stray byte of another answer can settle it, and no crowd
// that reads pages can keep it from being sent. Pages keep theirs alive.
type shop struct {
	cfg    UpstreamConfig
	key    []byte
	now    func() time.Time
	orders *fasthttp.HostClient
	pages  *fasthttp.HostClient
}

func newShop(cfg UpstreamConfig, key []byte, now func() time.Time) *shop {
	s := &shop{cfg: cfg, key: key, now: now}
	s.orders, s.pages = s.client(), s.client()
	return s
}

func (s *shop) client() *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr:                      hostPort(s.cfg.URL),
		IsTLS:                     s.cfg.URL.Scheme == "https",
		MaxConns:                  s.cfg.MaxConnections,
		MaxConnWaitTimeout:        s.cfg.ConnectTimeout,
		MaxIdemponentCallAttempts: 1,
		RetryIfErr:                func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
		ReadTimeout:               s.cfg.Timeout,
		WriteTimeout:              s.cfg.Timeout,
		MaxIdleConnDuration:       s.cfg.IdleTimeout,
		MaxResponseBodySize:       s.cfg.ResponseLimit,
		ReadBufferSize:            32 << 10,
		NoDefaultUserAgentHeader:  true,
		DisablePathNormalizing:    true,
		SecureErrorLogMessage:     true,
		Dial:                      s.dial,
	}
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
	if tcp, ok := conn.(*net.TCPConn); ok && s.cfg.URL.Scheme == "http" {
		raw, err := tcp.SyscallConn()
		if err != nil {
			conn.Close()
			return nil, errors.Join(errNotSent, err)
		}
		return &shopConn{Conn: conn, raw: raw}, nil
	}
	return conn, nil
}

// order sends req once, on a connection of its own. Its error is errNotSent or
// errUnknown; a time-out also unwraps to fasthttp.ErrTimeout.
func (s *shop) order(req *fasthttp.Request, resp *fasthttp.Response, within time.Duration) error {
	req.SetConnectionClose()
	return sent(s.orders.DoTimeout(req, resp, within))
}

// staleTries bounds how many kept connections a page may find spoilt.
const staleTries = 3

// page fetches what needs no unit. Answers that shops frame wrongly now and
// then, those to HEAD, end their connection.
func (s *shop) page(req *fasthttp.Request, resp *fasthttp.Response) error {
	if req.Header.IsHead() {
		req.SetConnectionClose()
	}
	var err error
	for range staleTries {
		if err = s.pages.DoTimeout(req, resp, s.cfg.Timeout); !errors.Is(err, errStale) {
			break
		}
	}
	if err == nil && resp.StatusCode() == fasthttp.StatusSwitchingProtocols {
		return errors.Join(errUnknown, errors.New("the shop switched protocols, unasked"))
	}
	return sent(err)
}

func sent(err error) error {
	switch {
	case err == nil, errors.Is(err, errNotSent):
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

// isOurs names the headers that only we may say upstream, in every spelling
// that a shop could read them in: CGI, WSGI and PHP see no difference between
// Weir-User and Weir_User. Overrides of method, path or host are dropped too,
// since the shop would act on another request than the one that was checked.
func isOurs(name string) bool {
	lower := strings.ToLower(name)
	if strings.ContainsRune(lower, '_') {
		return true
	}
	for _, prefix := range []string{"weir-", "x-forwarded", "x-original-", "x-rewrite-", "x-http-method"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	switch lower {
	case "forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "x-cluster-client-ip", "cf-connecting-ip", "fastly-client-ip",
		"x-host", "x-method-override", "front-end-https", "via",
		"x-request-id", "idempotency-key", "content-digest", "signature", "signature-input", "cookie":
		return true
	}
	return false
}

// connectionNames are the further hop-by-hop headers that Connection lists.
func connectionNames(values [][]byte) []string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(string(v), ",") {
			// What says how to read the body is no connection's to drop.
			if n := strings.ToLower(strings.TrimSpace(name)); n != "content-type" {
				names = append(names, n)
			}
		}
	}
	return names
}
