package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// wish is what the body of a buy request may say to weir. Other fields are
// the shop's. rest is the body that the shop gets: without what was for weir
// alone, else byte by byte as it came.
type wish struct {
	quantity          int64
	pass              string
	challenge, answer string
	rest              []byte
}

// readWish reads the few fields that weir needs. What the shop could read in
// another way than we do is refused: a field twice, in another spelling, or in
// a kind of body that we do not read.
func readWish(x *exchange) (wish, error) {
	body := x.c.Request().Body()
	w := wish{quantity: 1, rest: body}
	h := &x.c.Request().Header
	if _, query, _ := strings.Cut(text(h.RequestURI()), "?"); query != "" {
		if err := foreign(query); err != nil {
			return w, err
		}
	}
	if encoding := h.Peek("Content-Encoding"); len(encoding) > 0 && !strings.EqualFold(text(encoding), "identity") {
		return w, errors.New("Content-Encoding: an order is not packed")
	}
	if len(body) == 0 {
		return w, nil
	}
	kind, _, err := mime.ParseMediaType(string(h.ContentType()))
	switch {
	case err == nil && kind == "application/json":
		return w, w.json(body)
	case err == nil && kind == "application/x-www-form-urlencoded":
		return w, w.form(x.c.Request().PostArgs())
	}
	return w, errors.New("Content-Type: an order is a form, JSON, or has no body")
}

// set takes one field of ours; "" stands for one that is not there.
func (w *wish) set(name, value string) error {
	switch name {
	case "quantity":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("quantity %s: must be a whole number", shorten(value))
		}
		w.quantity = n
	case "weir_pass":
		w.pass = value
	case "challenge":
		w.challenge = value
	case "answer":
		w.answer = value
	}
	return nil
}

// ours says whether a field is weir's to read, and whether it is for weir
// alone. A name that only nearly is one of them is an error.
func ours(name string) (mine, alone bool, err error) {
	plain := base(name)
	switch plain {
	case "quantity", "weir_pass", "challenge", "answer":
		if plain != name {
			return false, false, fmt.Errorf("%s: write %s", shorten(name), plain)
		}
		return true, plain != "quantity", nil
	}
	return false, false, nil
}

// base is the name that some shop would take name for: PHP and others read
// quantity[0], "quantity " and quantity with a NUL behind as quantity.
func base(name string) string {
	if cut := strings.IndexAny(name, "[\x00"); cut >= 0 {
		name = name[:cut]
	}
	return strings.NewReplacer(".", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// foreign refuses fields of ours in a place where we do not read them, be it
// pairs split by & or by ; as old parsers do.
func foreign(pairs string) error {
	for pair := range strings.FieldsFuncSeq(pairs, func(r rune) bool { return r == '&' || r == ';' }) {
		raw, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(raw)
		if err != nil {
			name = raw
		}
		if mine, _, err := ours(name); mine || err != nil {
			return fmt.Errorf("%s: belongs into the body, once", base(name))
		}
	}
	return nil
}

func (w *wish) form(args *fasthttp.Args) error {
	seen := map[string]bool{}
	var kept fasthttp.Args
	stripped := false
	for k, v := range args.All() {
		name := string(k)
		mine, alone, err := ours(name)
		if err != nil {
			return err
		}
		if mine && seen[name] {
			return fmt.Errorf("%s: given twice", name)
		}
		seen[name] = true
		if _, behind, old := strings.Cut(string(v), ";"); old {
			if err := foreign(behind); err != nil {
				return err
			}
		}
		if mine {
			if err := w.set(name, string(v)); err != nil && (name != "quantity" || len(v) > 0) {
				return err
			}
		}
		if alone {
			stripped = true
			continue
		}
		kept.AddBytesKV(k, v)
	}
	if stripped {
		w.rest = bytes.Clone(kept.QueryString())
	}
	return nil
}

// maxBodyFields bounds the fields of one order.
const maxBodyFields = 256

var errNotObject = errors.New("body: not a JSON object as its Content-Type says")

func (w *wish) json(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errNotObject
	}
	seen := map[string]bool{}
	var kept bytes.Buffer
	stripped := false
	for n := 0; dec.More(); n++ {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || n >= maxBodyFields || dec.Decode(&value) != nil {
			return errNotObject
		}
		mine, alone, err := ours(name)
		switch {
		case err != nil:
			return err
		case seen[name]:
			return fmt.Errorf("%s: given twice", shorten(name))
		}
		seen[name] = true
		if mine {
			if err := w.setJSON(name, value); err != nil {
				return err
			}
		}
		if alone {
			stripped = true
			continue
		}
		appendField(&kept, name, value)
	}
	if _, err := dec.Token(); err != nil {
		return errNotObject
	}
	if _, err := dec.Token(); err != io.EOF {
		return errNotObject
	}
	if stripped {
		w.rest = append(append([]byte("{"), kept.Bytes()...), '}')
	}
	return nil
}

// setJSON wants quantity as a number and the others as strings.
func (w *wish) setJSON(name string, value json.RawMessage) error {
	if name == "quantity" {
		return w.set(name, string(value))
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return fmt.Errorf("%s: must be a string", name)
	}
	return w.set(name, s)
}

func appendField(b *bytes.Buffer, name string, value json.RawMessage) {
	if b.Len() > 0 {
		b.WriteByte(',')
	}
	key, _ := json.Marshal(name) // a string always encodes
	b.Write(key)
	b.WriteByte(':')
	b.Write(value)
}

// shorten bounds a value that is quoted back.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
