package gateway

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"
)

// checkFraming refuses what the shop's parser could read in another way than
// ours, before any state is made (see docs/architecture.md, "Two parsers").
// fasthttp has read the request already; the raw header lines tell what it
// was lenient about.
func checkFraming(r *fasthttp.Request) Kind {
	h := &r.Header
	switch proto := h.Protocol(); {
	case bytes.Equal(proto, []byte("HTTP/1.1")):
	case bytes.Equal(proto, []byte("HTTP/1.0")):
	default:
		return BadVersion
	}
	if !knownMethod(h.Method()) {
		return BadMethod
	}
	f, ok := readFraming(h.RawHeaders())
	if !ok {
		return BadRequest
	}
	if len(h.PeekTrailerKeys()) > 0 {
		return BadRequest // a trailer would be read as a header that nobody in front of us saw
	}
	http11 := h.IsHTTP11()
	switch {
	case f.hosts > 1, f.hosts == 0 && http11,
		f.lengths > 1,
		f.encodings > 1, f.encodings == 1 && (f.lengths == 1 || !http11 || !f.chunked):
		return BadRequest
	}
	return goOn
}

// framing counts the header lines that decide where a request ends.
type framing struct {
	hosts, lengths, encodings int
	chunked                   bool
}

func readFraming(raw []byte) (f framing, ok bool) {
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			end = len(raw)
		}
		line := bytes.TrimSuffix(raw[:end], []byte("\r"))
		raw = raw[min(end+1, len(raw)):]
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' || bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
			return f, false // folded, or a bare CR
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[colon-1] == ' ' || line[colon-1] == '\t' {
			return f, false
		}
		f.note(line[:colon], line[colon+1:])
	}
	return f, true
}

func (f *framing) note(name, value []byte) {
	switch {
	case bytes.EqualFold(name, []byte("Host")):
		f.hosts++
	case bytes.EqualFold(name, []byte("Content-Length")):
		f.lengths++
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		f.encodings++
		f.chunked = bytes.EqualFold(bytes.Trim(value, " "), []byte("chunked"))
	}
}

func knownMethod(m []byte) bool {
	switch string(m) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return true
	}
	return false
}

// kindOfReadError maps what fasthttp could not read to a refusal. Its own
// texts print the request's bytes, so none of them is passed on.
func kindOfReadError(err error) Kind {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case isTimeout(err):
		return RequestTimeout
	case errors.As(err, &small):
		return HeadersTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return TooLarge
	}
	return BadRequest
}
