package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// These bound a configuration file, so that none can make the parser, which is
// quadratic in the keys of a mapping, run for minutes or out of stack. A sale
// takes 15 lines at most.
const (
	maxConfigBytes = 256 << 10
	maxConfigLines = 10_000
	maxConfigDepth = 32
)

// Load reads src, merges it onto Default and validates the result. The error is
// a Faults with every fault of the file: unknown, repeated and mistyped keys and
// impossible values, sorted by line. path only names the file in messages.
func Load(path string, src []byte) (Config, error) {
	c, _, faults := load(path, src)
	return c, faults.err()
}

// load is Load that also says where each key stands. With faults, the Config
// holds what could be read.
func load(path string, src []byte) (Config, places, Faults) {
	d := decoder{file: path, places: places{}}
	c := Default()
	body, fault := parse(path, src)
	if fault != nil {
		return c, d.places, Faults{*fault}
	}
	if body != nil {
		d.value(body, reflect.ValueOf(&c).Elem(), "")
	}
	c.fill(d.places)
	faults := d.faults
	for _, f := range c.Validate() {
		if !d.faults.covers(f.Path) {
			f.File, f.Line = path, d.places.line(f.Path)
			faults = append(faults, f)
		}
	}
	faults.sort()
	return c, d.places, faults
}

// fill sets the defaults that depend on another key of the file.
func (c *Config) fill(set places) {
	for i := range c.Routes {
		r, path := &c.Routes[i], fmt.Sprintf("routes[%d]", i)
		if _, ok := set[path+".captcha"]; !ok && set[path] > 0 {
			r.Captcha = r.Kind == "buy"
		}
		if _, ok := set[path+".auth"]; !ok && set[path] > 0 && r.Kind == "proxy" {
			r.Auth = "optional"
		}
	}
	// The demo sale belongs to the sample shop; a real one sells only what is written.
	if _, ok := set["sales"]; !ok && !c.Upstream.Sample() {
		c.Sales = []SaleConfig{}
	}
}

// parse gives the one mapping of the file, or nil for an empty file.
func parse(path string, src []byte) (body ast.Node, fault *Fault) {
	whole := func(line int, text string) (ast.Node, *Fault) {
		return nil, &Fault{File: path, Line: line, Text: text}
	}
	if len(src) > maxConfigBytes {
		return whole(0, fmt.Sprintf("is too large (%d bytes), right is at most %d", len(src), maxConfigBytes))
	}
	if n := bytes.Count(src, []byte("\n")); n > maxConfigLines {
		return whole(0, fmt.Sprintf("is too long (%d lines), right is at most %d", n, maxConfigLines))
	}
	if !utf8.Valid(src) {
		return whole(0, "is no UTF-8 text")
	}
	if line := tooDeep(src); line > 0 {
		return whole(line, fmt.Sprintf("is nested too deep, right is at most %d levels", maxConfigDepth))
	}
	// The parser is not ours and a file is foreign input: its panic is a fault, not a crash.
	defer func() {
		if p := recover(); p != nil {
			body, fault = whole(0, "is no readable YAML")
		}
	}()
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, text := syntax(err)
		return whole(line, "is no readable YAML: "+text)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType:
		case body != nil:
			return whole(line(doc.Body), "is a second document, right is one")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, nil
	}
	if _, ok := entries(body); !ok {
		return whole(line(body), "is "+kind(body)+", right is a list of key: value")
	}
	return body, nil
}

func syntax(err error) (line int, text string) {
	var y yaml.Error
	if !errors.As(err, &y) {
		return 0, clip(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if t := y.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return line, y.GetMessage()
}

// tooDeep gives the line where flow brackets or indentation go deeper than any
// real file, or 0. It counts brackets in texts and comments too, which is harmless.
func tooDeep(src []byte) int {
	line, depth, compact := 1, 0, 0
	for _, b := range src {
		switch b {
		case '\n':
			line, compact = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '-', '?', '!', '&':
			compact++ // "- - - -" opens a level each on one line
		}
		if depth > maxConfigDepth || compact > 40*maxConfigDepth {
			return line
		}
	}
	return 0
}

func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}
