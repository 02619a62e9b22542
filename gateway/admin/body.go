package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// fields names the members that a body may have and where each goes. Every
// member is optional here; the caller says what it misses.
type fields map[string]any

// readJSON reads one flat JSON object, strictly: a member is spelled exactly,
// comes once, is not null and has the right type, and nothing follows. An
// empty body is an empty object. Each refusal names the member and its value.
func readJSON(contentType string, body []byte, into fields) error {
	members, err := splitObject(contentType, body)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(into))
	for _, m := range members {
		if err := m.read(into, seen); err != nil {
			return err
		}
	}
	return nil
}

// member is one member of a JSON object, as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// splitObject reads an object's members in order and nothing into them.
func splitObject(contentType string, body []byte) (members []member, err error) {
	if len(body) == 0 {
		return nil, nil
	}
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Type %q is not application/json.", shorten(contentType))
	}
	if !utf8.Valid(body) {
		return nil, badRequest("The body is not UTF-8.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, badRequest("The body is not a JSON object.")
	}
	for d.More() {
		t, err := d.Token()
		m := member{}
		m.name, _ = t.(string)
		if err != nil {
			return nil, badRequest("The body is not valid JSON at byte %d.", d.InputOffset())
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, badRequest("Field %q: its value is not valid JSON.", shorten(m.name))
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, badRequest("The body is not valid JSON at byte %d.", d.InputOffset())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, badRequest("Something follows the JSON object at byte %d.", d.InputOffset())
	}
	return members, nil
}

func (m member) read(into fields, seen map[string]bool) error {
	name, value := m.name, string(m.value)
	target, known := into[name]
	switch {
	case !known:
		return badRequest("Field %q (value %s) is unknown; known are: %s.", shorten(name), shorten(value), into.names())
	case seen[name]:
		return badRequest("Field %q (value %s) comes twice.", name, shorten(value))
	}
	seen[name] = true
	if value == "null" || json.Unmarshal(m.value, target) != nil {
		return badRequest("Field %q: value %s is not a %s.", name, shorten(value), kindOf(target))
	}
	if text, ok := target.(*string); ok && strings.ContainsRune(*text, utf8.RuneError) {
		return badRequest("Field %q: value %s holds half a character.", name, shorten(value))
	}
	return nil
}

func (f fields) names() string {
	if len(f) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}

func kindOf(target any) string {
	switch target.(type) {
	case *string:
		return "text"
	case *bool:
		return "true or false"
	case *json.RawMessage:
		return "list"
	}
	return fmt.Sprintf("%T", target)[1:]
}

// note checks a free text that goes into the audit log.
func note(name, text string) error {
	if len(text) > 512 || strings.ContainsFunc(text, unprintable) {
		return badRequest("Field %q: value %q is not printable text of at most 512 bytes.", name, shorten(text))
	}
	return nil
}
