package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every key that Config knows must be explained in config.yaml with its default
// and its danger: by a comment right above it, or, for the keys of tokens, routes,
// sales and limits, by an entry in the "Keys of …" list above them. A section that
// only holds keys is explained by them.
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

// No line is wider than a person wants to read.
func TestTheShippedFileKeepsToAHundredColumns(t *testing.T) {
	src, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(src), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("config.yaml:%d: %d columns, right is at most 100", i+1, n)
		}
	}
}

type book struct {
	t     *testing.T
	lines []string
	where places
}

func (b book) walk(t reflect.Type, path string) {
	for f := range fields(t) {
		child := joinKey(path, f.Tag.Get("yaml"))
		rows := f.Type.Kind() == reflect.Slice && !scalar(f.Type.Elem())
		limit := strings.HasPrefix(child, "limits.")
		if section := f.Type.Kind() == reflect.Struct && !scalar(f.Type) && !limit; section {
			b.above(child)
			b.walk(f.Type, child)
			continue
		}
		text := b.above(child)
		b.complete(child, text)
		switch {
		case rows:
			b.list(f.Type.Elem(), child, text)
		case limit:
			b.list(f.Type, child, b.above("limits"))
		}
	}
}

// complete wants the two words that a comment is looked up for.
func (b book) complete(path, text string) {
	for _, word := range []string{"Default", "Danger"} {
		if !strings.Contains(text, word) {
			b.t.Errorf("the comment of %s has no %s", path, word)
		}
	}
}

// above gives the comment right above a key, and wants one.
func (b book) above(path string) string {
	at := b.where[path]
	if at == 0 {
		b.t.Errorf("%s does not stand in config.yaml", path)
		return ""
	}
	first := at - 1
	for first > 0 && strings.HasPrefix(strings.TrimSpace(b.lines[first-1]), "#") {
		first--
	}
	if first == at-1 {
		b.t.Errorf("%s has no comment above it", path)
	}
	return strings.Join(b.lines[first:at-1], "\n")
}

// list wants an entry `#   key   words`, on as many lines as it takes, for each key of
// the row type.
func (b book) list(row reflect.Type, path, comment string) {
	for f := range fields(row) {
		key := f.Tag.Get("yaml")
		entry := regexp.MustCompile(`(?m)^ *#   ` + key + ` +\S.*(\n *#    +\S.*)*`).FindString(comment)
		if entry == "" {
			b.t.Errorf("%s: the key %s is not in the list of keys", path, key)
			continue
		}
		b.complete(path+"."+key, entry)
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
