package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Every key that Config knows must be explained in config.yaml: by a comment
// right above it, which names the default, or, for the keys of routes, sales and
// limits, by a line in the "Keys of …" list above them.
func TestEveryKeyIsExplainedInTheShippedFile(t *testing.T) {
	src, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, where, faults := load("config.yaml", src)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b := book{t: t, lines: strings.Split(string(src), "\n"), where: where}
	b.walk(reflect.TypeFor[Config](), "")
}

type book struct {
	t     *testing.T
	lines []string
	where places
}

func (b book) walk(t reflect.Type, path string) {
	for f := range fields(t) {
		child := joinKey(path, f.Tag.Get("yaml"))
		if strings.HasPrefix(child, "limits.") || child == "admin.tokens" || child == "routes" || child == "sales" {
			b.keysList(f.Type, child)
		}
		b.comment(child, scalar(f.Type) || f.Type.Kind() == reflect.Slice && child != "routes" && child != "sales")
		if f.Type.Kind() == reflect.Struct && !scalar(f.Type) && !strings.HasPrefix(child, "limits.") {
			b.walk(f.Type, child)
		}
	}
}

// comment wants a comment right above the key.
func (b book) comment(path string, leaf bool) {
	at := b.where[path]
	if at == 0 {
		b.t.Errorf("%s does not stand in config.yaml", path)
		return
	}
	text := b.above(at)
	if text == "" {
		b.t.Errorf("%s has no comment above it", path)
	}
	if leaf && !strings.Contains(text, "efault") {
		b.t.Errorf("the comment of %s does not name its default", path)
	}
}

// above collects the comment lines right above line n (from 1).
func (b book) above(n int) string {
	var text []string
	for i := n - 2; i >= 0 && strings.HasPrefix(strings.TrimSpace(b.lines[i]), "#"); i-- {
		text = append(text, b.lines[i])
	}
	return strings.Join(text, "\n")
}

// keysList wants `#   key   words` for each key of the element type above path.
func (b book) keysList(t reflect.Type, path string) {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	above := b.above(b.where[path])
	if top, _, ok := strings.Cut(path, "."); ok && top == "limits" {
		above = b.above(b.where[top])
	}
	for f := range fields(t) {
		key := f.Tag.Get("yaml")
		if !regexp.MustCompile(`(?m)^\s*#\s+(- )?` + key + `:?\s+\S`).MatchString(above) {
			b.t.Errorf("%s: the key %s is not in the list of keys", path, key)
		}
	}
}

// The list of variables in config.yaml must be that of the code.
func TestEveryVariableIsNamedInTheShippedFile(t *testing.T) {
	src, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Redis.Shared = &RedisServer{}
	c.Secrets(func(name string) string {
		if !strings.Contains(string(src), "#   "+name+" ") {
			t.Errorf("%s is read and not explained", name)
		}
		return ""
	})
}
