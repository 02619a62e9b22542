package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLoadCountsEachAnswerAndTheWantedOnesApart(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/buy/1001" || !strings.HasPrefix(r.Header.Get("Cookie"), "shop_session=") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"code":"rate_limited"}`)
	}))
	defer s.Close()
	request, err := buyRequest("somebody")
	if err != nil {
		t.Fatal(err)
	}
	at := &server{addr: s.Listener.Addr().String(), pid: os.Getpid()}
	got, err := load(t.Context(), at, request, 2, 50*time.Millisecond, refusalKinds()[0].is)
	if err != nil {
		t.Fatal(err)
	}
	if got.requests == 0 || got.wanted != got.requests {
		t.Errorf("%d of %d answers were the wanted one", got.wanted, got.requests)
	}
}

func TestOnlyTheRefusalThatIsMeasuredCounts(t *testing.T) {
	limited := refusalKinds()[0]
	for body, want := range map[string]bool{
		`{"code":"rate_limited"}`:     true,
		`{"code":"captcha_required"}`: false,
	} {
		if got := limited.is(answer{status: 429, body: []byte(body)}); got != want {
			t.Errorf("429 %s: %t", body, got)
		}
	}
	if limited.is(answer{status: 200, body: []byte(`{"code":"rate_limited"}`)}) {
		t.Error("a 200 counts as a refusal")
	}
}

func TestAnAnswerThatCannotBeReadIsAFault(t *testing.T) {
	for name, text := range map[string]string{
		"no HTTP":           "hello there\r\n\r\n",
		"no status":         "HTTP/1.1 abc Hm\r\n\r\n",
		"no length":         "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n",
		"a length of words": "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
		"too large":         "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"cut off":           "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			go func() {
				far.Read(make([]byte, 16))
				io.WriteString(far, text)
				far.Close()
			}()
			c := &conn{Conn: near, in: bufio.NewReader(near)}
			if a, err := c.do([]byte("x")); err == nil {
				t.Errorf("read %d %q", a.status, a.body)
			}
		})
	}
}
