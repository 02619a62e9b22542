package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Effective writes c as a configuration that Load reads back as c. There is no
// secret in it, because there is none in a Config; only the paths of their files.
//
// It writes by itself rather than by the YAML library, whose encoder does not
// quote every text that its parser takes for something else (tabs, .inf).
func Effective(c Config) ([]byte, error) {
	var w yamlWriter
	w.object(reflect.ValueOf(c), 0)
	return w.out.Bytes(), w.err
}

type yamlWriter struct {
	out bytes.Buffer
	err error
}

// object writes the keys of a struct; the cursor stands where the first key goes.
func (w *yamlWriter) object(v reflect.Value, depth int) {
	first := true
	for f := range fields(v.Type()) {
		if !first || depth > 0 && !w.afterDash() {
			w.out.WriteString(strings.Repeat("  ", depth))
		}
		first = false
		w.out.WriteString(f.Tag.Get("yaml") + ":")
		w.value(v.FieldByIndex(f.Index), depth)
	}
}

// afterDash says that the key goes on the line of its list dash.
func (w *yamlWriter) afterDash() bool { return bytes.HasSuffix(w.out.Bytes(), []byte("- ")) }

// value writes what follows a key or a dash, and the end of the line.
func (w *yamlWriter) value(v reflect.Value, depth int) {
	switch {
	case scalar(v.Type()):
		w.out.WriteString(" " + w.scalar(v) + "\n")
	case v.Kind() == reflect.Pointer && v.IsNil():
		w.out.WriteString(" null\n")
	case v.Kind() == reflect.Pointer:
		w.value(v.Elem(), depth)
	case v.Kind() == reflect.Struct:
		w.out.WriteByte('\n')
		w.object(v, depth+1)
	case v.Len() == 0 || scalar(v.Type().Elem()):
		items := make([]string, v.Len())
		for i := range items {
			items[i] = w.scalar(v.Index(i))
		}
		w.out.WriteString(" [" + strings.Join(items, ", ") + "]\n")
	default:
		w.out.WriteByte('\n')
		for i := range v.Len() {
			w.out.WriteString(strings.Repeat("  ", depth+1) + "- ")
			w.object(v.Index(i), depth+2)
		}
	}
}

func (w *yamlWriter) scalar(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case Size:
		return x.String()
	case SaleTime:
		return w.text(x.String())
	case string:
		return w.text(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// plainText is what no YAML parser takes for anything but a text.
var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._-]*$`)

func (w *yamlWriter) text(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	// A JSON string is a YAML string.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		w.err = fmt.Errorf("writing the configuration: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
