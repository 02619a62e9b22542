package gateway

import (
	"strings"
)

// canonicalPath returns the one spelling of a request target's path that is
// matched, used as a key, and forwarded. It is false for what two parsers
// could read differently: an empty or dot segment, a backslash, a control or
// non-ASCII byte, an encoded slash, and an absolute form.
//
// Percent-encoded unreserved characters are decoded (RFC 3986 §6.2.2.2), so
// /item/%31 and /item/1 are one path; other escapes are kept, in upper case.
func canonicalPath(target string) (path, query string, ok bool) {
	path, query, _ = strings.Cut(target, "?")
	if !validQuery(query) || len(path) == 0 || path[0] != '/' {
		return "", "", false
	}
	simple, ok := scanPath(path)
	if !ok {
		return "", "", false
	}
	if !simple {
		if path, ok = decodeUnreserved(path); !ok {
			return "", "", false
		}
	}
	return path, query, cleanSegments(path)
}

// scanPath says whether every byte may stand in a path, and whether none of
// them is an escape.
func scanPath(path string) (simple, ok bool) {
	simple = true
	for i := range len(path) {
		switch b := path[i]; {
		case b == '%':
			simple = false
		case b <= ' ' || b >= 0x7f || strings.IndexByte("\\#\"<>^`{|}", b) >= 0:
			return false, false
		}
	}
	return simple, true
}

func decodeUnreserved(path string) (string, bool) {
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) || unhex(path[i+1]) < 0 || unhex(path[i+2]) < 0 {
			return "", false
		}
		v := byte(unhex(path[i+1])<<4 | unhex(path[i+2]))
		switch {
		case unreserved(v):
			b.WriteByte(v)
		case v < ' ' || v == 0x7f || v == '/' || v == '\\' || v == '%':
			return "", false
		default:
			b.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return b.String(), true
}

// cleanSegments refuses //, /./ and /../ ; one slash at the end is allowed.
func cleanSegments(path string) bool {
	for rest := path[1:]; rest != ""; {
		segment, tail, more := strings.Cut(rest, "/")
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
		if !more {
			return true
		}
		rest = tail
	}
	return true
}

func validQuery(q string) bool {
	for i := range len(q) {
		if q[i] <= ' ' || q[i] >= 0x7f || q[i] == '#' {
			return false
		}
	}
	return true
}

func unreserved(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '.' || b == '_' || b == '~'
}

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

// validItem says whether id may name an item: [A-Za-z0-9][A-Za-z0-9._-]{0,63}.
func validItem(id string) bool {
	if len(id) == 0 || len(id) > 64 || !unreserved(id[0]) || strings.IndexByte("-._~", id[0]) >= 0 {
		return false
	}
	for i := range len(id) {
		if !unreserved(id[i]) || id[i] == '~' {
			return false
		}
	}
	return true
}
