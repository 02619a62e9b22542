package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

var errProtocol = errors.New("redistest: not RESP")

// readCommand reads one command as its bytes and its upper-case name.
func readCommand(r *bufio.Reader) (raw []byte, name string, err error) {
	raw, err = r.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	if raw[0] != '*' { // an inline command
		words := strings.Fields(string(raw))
		return raw, strings.ToUpper(strings.Join(words[:min(1, len(words))], "")), nil
	}
	count, err := number(raw)
	if err != nil {
		return nil, "", err
	}
	for i := range count {
		before := len(raw)
		if raw, err = appendReply(raw, r); err != nil {
			return nil, "", err
		}
		if i == 0 {
			_, word, _ := bytes.Cut(raw[before:], []byte("\r\n"))
			name = strings.ToUpper(strings.TrimSpace(string(word)))
		}
	}
	return raw, name, nil
}

// readReply reads one reply whole. A push answers no command, and neither does
// the bare newline by which a master keeps a waiting replica.
func readReply(r *bufio.Reader) (raw []byte, push bool, err error) {
	raw, err = appendReply(nil, r)
	return raw, err == nil && (raw[0] == '>' || raw[0] == '\n'), err
}

// appendReply reads one value of RESP2 or RESP3 with all that it holds.
func appendReply(raw []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	parts := 0
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(', '\n':
		return raw, nil
	case '$', '=', '!':
		return appendBulk(raw, line, r)
	case '*', '~', '>':
		parts, err = number(line)
	case '%':
		parts, err = number(line)
		parts *= 2
	case '|': // attributes, and behind them the value that they belong to
		parts, err = number(line)
		parts = parts*2 + 1
	default:
		err = errProtocol
	}
	for range parts {
		if err == nil {
			raw, err = appendReply(raw, r)
		}
	}
	return raw, err
}

func appendBulk(raw, line []byte, r *bufio.Reader) ([]byte, error) {
	size, err := number(line)
	if err != nil || size < 0 {
		return raw, err
	}
	at := len(raw)
	raw = append(raw, make([]byte, size+2)...)
	_, err = io.ReadFull(r, raw[at:])
	return raw, err
}

// number is the count in a header line; -1 stands for null.
func number(line []byte) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil || n < -1 {
		return 0, errProtocol
	}
	return n, nil
}

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
