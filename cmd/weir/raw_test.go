package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rawHTTP sends bytes as they are and reads one answer.
func rawHTTP(t *testing.T, w *world, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer to %q: %v", request, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

func TestWhatTwoParsersReadDifferentlyIsRefused(t *testing.T) {
	c := quiet(t, "memory")
	c.Listen.ReadTimeout = 2 * time.Second
	w := boot(t, c)
	const secret = "do-not-echo-me"
	for name, r := range map[string]struct {
		request string
		status  int
	}{
		"length and encoding":       {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"two lengths":               {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
		"two encodings":             {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"a strange encoding":        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
		"encoding on HTTP/1.0":      {"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"two hosts":                 {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"no host":                   {"GET / HTTP/1.1\r\nX: y\r\n\r\n", 400},
		"an unknown version":        {"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505},
		"an unknown method":         {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		"a folded header":           {"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n X-B: 2\r\n\r\n", 400},
		"a bare CR":                 {"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\rX-B: 2\r\n\r\n", 400},
		"a space before the colon":  {"GET / HTTP/1.1\r\nHost: a\r\nX-A : 1\r\n\r\n", 400},
		"absolute form":             {"GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"two spaces":                {"GET  /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a signed length":           {"POST / HTTP/1.1\r\nHost: a\r\nCookie: " + secret + "\r\nContent-Length: +3\r\n\r\nabc", 400},
		"a length past all numbers": {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\nabc", 400},
		"a body over the limit":     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\nabc", 413},
		"headers over the limit":    {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", 431},
		"TRACE":                     {"TRACE / HTTP/1.1\r\nHost: a\r\nX-Secret: " + secret + "\r\n\r\n", 405},
		"CONNECT":                   {"CONNECT shop:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := rawHTTP(t, w, r.request)
			if resp.StatusCode != r.status {
				t.Errorf("want %d, got %d %s", r.status, resp.StatusCode, body)
			}
			if resp.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(body, secret) {
				t.Errorf("a fixed body, nothing of the request in it: %v %s", resp.Header, body)
			}
		})
	}
}

func TestSixKilobytesOfCookiesPass(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	if resp, body := rawHTTP(t, w, "GET / HTTP/1.1\r\nHost: a\r\nCookie: x="+strings.Repeat("x", 6<<10)+"\r\n\r\n"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
}

func TestHeadAndOptionsBehave(t *testing.T) {
	w := boot(t, quiet(t, "memory"))
	p := w.person("alice")
	get, head := p.must("GET", "/items/1001", nil), p.must("HEAD", "/items/1001", nil)
	if head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Length") != get.header.Get("Content-Length") {
		t.Errorf("HEAD is GET without the body: %s %v, GET %v", head, head.header, get.header)
	}
	if r := p.must("HEAD", "/_weir/sales/demo", nil); r.status != 200 || len(r.body) != 0 {
		t.Errorf("HEAD of our own: %s", r)
	}
	if r := p.must("OPTIONS", "/buy/1001", nil); r.status != http.StatusNoContent || !strings.Contains(r.header.Get("Allow"), "POST") {
		t.Errorf("OPTIONS: %s %v", r, r.header)
	}
	if r := p.must("HEAD", "/buy/1001", nil); r.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD on a buy route: %s", r)
	}
	w.invariant("demo")
}
