package gateway

import (
	"bytes"
	"strconv"

	"weir/internal/problem"
)

// plainBodies are the problems of refusals that carry nothing of their own,
// encoded once: a flood is answered with them.
type plainBodies [kinds][]byte

func newPlainBodies() *plainBodies {
	var all plainBodies
	for k := range kinds {
		r := table[k]
		whole := problem.Problem{Title: r.title, Status: r.status, Code: r.code, Detail: r.detail}.JSON()
		all[k] = bytes.TrimSuffix(whole, []byte("}"))
	}
	return &all
}

// body is the problem of k for one request. The id is hex, so it needs no escaping.
func (p *plainBodies) body(k Kind, id string, retry int) []byte {
	out := make([]byte, 0, len(p[k])+64)
	out = append(out, p[k]...)
	out = append(out, `,"request_id":"`...)
	out = append(out, id...)
	out = append(out, '"')
	if retry > 0 {
		out = append(out, `,"retry_after":`...)
		out = strconv.AppendInt(out, int64(retry), 10)
	}
	return append(out, '}')
}
