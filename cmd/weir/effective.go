package main

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/goccy/go-yaml"
)

// Effective writes c as a configuration that Load reads back as c. There is no
// secret in it, because there is none in a Config.
func Effective(c Config) ([]byte, error) {
	out, err := yaml.MarshalWithOptions(plain(reflect.ValueOf(c)), yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return out, nil
}

// plain turns a config value into maps, lists and scalars in the order of the fields.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case SaleTime:
		return x.String()
	case Size:
		if s := x.String(); s != fmt.Sprint(int64(x)) {
			return s
		}
		return int64(x)
	case time.Duration:
		return formatDuration(x)
	}
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
	case reflect.Struct:
		m := yaml.MapSlice{}
		for f := range fields(v.Type()) {
			m = append(m, yaml.MapItem{Key: f.Tag.Get("yaml"), Value: plain(v.FieldByIndex(f.Index))})
		}
		return m
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	}
	return v.Interface()
}
