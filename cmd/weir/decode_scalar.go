package main

import (
	"math"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// scalar decodes one value, without any conversion between kinds: 1001 is no
// text and "5" is no number.
func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	ok := false
	switch v.Type() {
	case durationType, sizeType, saleTimeType:
		d.unit(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.String:
		var s string
		if s, ok = text(n); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		var b *ast.BoolNode
		if b, ok = n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		}
	case reflect.Int, reflect.Int64:
		var i int64
		if i, ok = integer(n); ok {
			v.SetInt(i)
		}
	case reflect.Float64:
		var f float64
		if f, ok = number(n); ok {
			v.SetFloat(f)
		}
	}
	if !ok {
		d.fault(line(n), path, "is %s, right is %s", kind(n), example(v.Type()))
	}
}

// unit decodes the texts with units. Bytes may be a bare number, a duration only 0.
func (d *decoder) unit(n ast.Node, v reflect.Value, path string) {
	s, ok := text(n)
	if i, isInt := integer(n); isInt && (v.Type() == sizeType || i == 0 && v.Type() == durationType) {
		s, ok = n.String(), true
		if v.Type() == durationType {
			s = "0s"
		}
	}
	if !ok {
		d.fault(line(n), path, "is %s, right is %s", kind(n), example(v.Type()))
		return
	}
	value, err := parseUnit(s, v.Type())
	if err != nil {
		d.fault(line(n), path, "(%s) %s", clip(s), err)
		return
	}
	v.Set(value)
}

func parseUnit(s string, t reflect.Type) (reflect.Value, error) {
	switch t {
	case durationType:
		d, err := parseDuration(s)
		return reflect.ValueOf(d), err
	case sizeType:
		b, err := parseSize(s)
		return reflect.ValueOf(b), err
	}
	m, err := parseSaleTime(s)
	return reflect.ValueOf(m), err
}

func text(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	}
	return "", false
}

func integer(n ast.Node) (int64, bool) {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch x := i.Value.(type) {
	case int64:
		return x, true
	case uint64:
		return int64(x), x <= math.MaxInt64
	}
	return 0, false
}

func number(n ast.Node) (float64, bool) {
	if f, ok := n.(*ast.FloatNode); ok {
		return f.Value, !math.IsInf(f.Value, 0) && !math.IsNaN(f.Value)
	}
	i, ok := integer(n)
	return float64(i), ok
}

// kind names what was written, with a short form of its value.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a group of keys"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return "true or false (" + n.String() + ")"
	case *ast.InfinityNode, *ast.NanNode:
		return "not a finite number (" + clip(n.GetToken().Value) + ")"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number (" + clip(n.GetToken().Value) + ")"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text (" + clip(textOf(n)) + ")"
	}
	return "something else"
}

func textOf(n ast.Node) string {
	s, _ := text(n)
	return s
}

// example says in words what a type wants.
func example(t reflect.Type) string {
	switch t {
	case durationType:
		return "a duration such as 500ms, 5s or 30d"
	case sizeType:
		return "a size such as 512 or 64KiB"
	case saleTimeType:
		return "a time such as 2030-11-11T20:00:00+08:00"
	}
	switch t.Kind() {
	case reflect.String:
		return `a text, in quotes if it looks like a number`
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Struct:
		return "{…}"
	}
	return "a whole number"
}
