package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// decoder puts YAML nodes into a Config by its yaml tags. Unlike the decoder of
// the library it does not stop at the first fault, converts nothing by guess,
// and remembers where each key stands.
type decoder struct {
	file   string
	places places
	faults Faults
}

func (d *decoder) fault(line int, path, format string, args ...any) {
	d.faults = append(d.faults, Fault{File: d.file, Line: line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// defaulted is a list element whose left-out keys have defaults of their own.
type defaulted interface{ setDefaults() }

func (r *RouteConfig) setDefaults()    { *r = RouteConfig{Captcha: true, Auth: "required"} }
func (s *SaleConfig) setDefaults()     { *s = newSale() }
func (l *LimitException) setDefaults() { *l = LimitException{Mode: "enforce"} }
func (s *RedisServer) setDefaults()    { *s = defaultRedisServer() }

// value decodes n into v.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.fault(line(n), path, "is an anchor, alias or tag, right is a plain value")
		return
	}
	if scalar(v.Type()) {
		d.scalar(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Pointer:
		if n.Type() == ast.NullType {
			v.SetZero()
			return
		}
		v.Set(newElement(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	}
}

func newElement(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if e, ok := p.Interface().(defaulted); ok {
		e.setDefaults()
	}
	return p
}

func (d *decoder) object(n ast.Node, v reflect.Value, path string) {
	list, ok := entries(n)
	if !ok {
		d.fault(line(n), path, "is %s, right is a group of keys: %s", kind(n), strings.Join(keysOf(v.Type()), ", "))
		return
	}
	seen := map[string]int{}
	for _, e := range list {
		key, at := keyText(e.Key), line(e.Key)
		child := joinKey(path, key)
		field, known := fieldOf(v, key)
		switch first, twice := seen[key]; {
		case twice:
			d.fault(at, child, "stands twice, first on line %d; right is once", first)
		case !known:
			d.unknown(at, v.Type(), path, key)
		default:
			d.places[child] = at
			d.value(e.Value, field, child)
		}
		if _, twice := seen[key]; !twice {
			seen[key] = at
		}
	}
}

// unknown reports a key that does not exist; a secret gets told where it belongs.
func (d *decoder) unknown(at int, t reflect.Type, path, key string) {
	for f := range fields(t) {
		if env := f.Tag.Get("env"); env != "" && f.Tag.Get("yaml") == key+"_file" {
			d.fault(at, joinKey(path, clip(key)), "is a secret, and no secret stands in this file; right is %s_file: PATH, or %s in the environment", key, env)
			return
		}
	}
	d.fault(at, joinKey(path, clip(key)), "is no key that weir knows; right is one of %s", strings.Join(keysOf(t), ", "))
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(line(n), path, "is %s, right is a list such as [] or [%s]", kind(n), example(v.Type().Elem()))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(seq.Values))
	for i, item := range seq.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.places[child] = line(item)
		if list, ok := entries(item); ok && len(list) > 0 {
			d.places[child] = line(list[0].Key)
		}
		e := newElement(v.Type().Elem()).Elem()
		d.value(item, e, child)
		out = reflect.Append(out, e)
	}
	v.Set(out)
}

// entries gives the pairs of a mapping.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.String()
}

func joinKey(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fields walks the fields of a config struct in order.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func fieldOf(v reflect.Value, key string) (field reflect.Value, ok bool) {
	for f := range fields(v.Type()) {
		if f.Tag.Get("yaml") == key {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for f := range fields(t) {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	saleTimeType = reflect.TypeFor[SaleTime]()
)

// scalar says whether t is written as one YAML value.
func scalar(t reflect.Type) bool {
	return t == saleTimeType || !slices.Contains([]reflect.Kind{reflect.Struct, reflect.Slice, reflect.Pointer}, t.Kind())
}
