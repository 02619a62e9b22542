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
	if len(body) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Type %q is not application/json.", shorten(contentType))
	}
	if !utf8.Valid(body) {
		return badRequest("The body is not UTF-8.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return badRequest("The body is not a JSON object.")
	}
	seen := make(map[string]bool, len(into))
	for d.More() {
		if err := readMember(d, into, seen); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return badRequest("The body is not valid JSON at byte %d.", d.InputOffset())
	}
	if _, err := d.Token(); err != io.EOF {
		return badRequest("Something follows the JSON object at byte %d.", d.InputOffset())
	}
	return nil
}

func readMember(d *json.Decoder, into fields, seen map[string]bool) error {
	t, err := d.Token()
	name, _ := t.(string)
	if err != nil {
		return badRequest("The body is not valid JSON at byte %d.", d.InputOffset())
	}
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return badRequest("Field %q: its value is not valid JSON.", shorten(name))
	}
	target, known := into[name]
	switch {
	case !known:
		return badRequest("Field %q (value %s) is unknown; known are: %s.", shorten(name), shorten(string(value)), into.names())
	case seen[name]:
		return badRequest("Field %q (value %s) comes twice.", name, shorten(string(value)))
	}
	seen[name] = true
	if string(value) == "null" || json.Unmarshal(value, target) != nil {
		return badRequest("Field %q: value %s is not a %s.", name, shorten(string(value)), kindOf(target))
	}
	if text, ok := target.(*string); ok && strings.ContainsRune(*text, utf8.RuneError) {
		return badRequest("Field %q: value %s holds half a character.", name, shorten(string(value)))
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
