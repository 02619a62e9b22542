package main

import (
	"fmt"
	"slices"
	"strings"
)

var routeMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func (k *checker) routes(list []RouteConfig, l ListenConfig) {
	if len(list) == 0 {
		k.add("routes", "is empty, so everything is refused; right is at least one route")
	}
	names, shapes := map[string]bool{}, map[string]string{}
	for i, r := range list {
		path := fmt.Sprintf("routes[%d]", i)
		k.name(path+".name", r.Name)
		if names[r.Name] {
			k.add(path+".name", "(%s) stands twice, right is one name for each route", clip(r.Name))
		}
		names[r.Name] = true
		k.methods(path+".methods", r)
		k.oneOf(path+".kind", r.Kind, "buy", "proxy")
		k.oneOf(path+".auth", r.Auth, "required", "optional")
		if r.Kind == "buy" && r.Auth == "optional" {
			k.add(path+".auth", "(optional) cannot be with kind buy, where limits and ledger count by user; right is required")
		}
		if r.Kind == "proxy" && r.Captcha {
			k.add(path+".captcha", "is only for routes of kind buy, right is false")
		}
		if r.BodyLimit < 0 || r.BodyLimit > l.BodyLimit {
			k.add(path+".body_limit", "(%s) is more than listen.body_limit (%s) lets in, right is less, or to raise that one", r.BodyLimit, l.BodyLimit)
		}
		k.pattern(path+".path", r, l.Prefix)
		for _, m := range r.Methods {
			shape := m + " " + patternShape(r.Path)
			if first, ok := shapes[shape]; ok && first != r.Name {
				k.add(path+".path", "(%s) with %s is already taken by route %s, so it never matches; right is another path", clip(r.Path), m, clip(first))
				break
			}
			shapes[shape] = r.Name
		}
	}
}

func (k *checker) methods(path string, r RouteConfig) {
	if len(r.Methods) == 0 {
		k.add(path, "is empty, right is at least one of %s", strings.Join(routeMethods, ", "))
	}
	for i, m := range r.Methods {
		at := fmt.Sprintf("%s[%d]", path, i)
		k.oneOf(at, m, routeMethods...)
		if r.Kind == "buy" && slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, m) {
			k.add(at, "(%s) must not buy: links and previews would; right is POST, PUT or PATCH", m)
		}
	}
	distinct(k, path, r.Methods)
}

// pattern wants /literal/{name}/{rest...}: each wildcard a whole segment, the
// rest only at the end.
func (k *checker) pattern(path string, r RouteConfig, prefix string) {
	bad := func(format string, args ...any) { k.add(path, "(%s) "+format, append([]any{clip(r.Path)}, args...)...) }
	segments, err := splitPattern(r.Path)
	if err != "" {
		bad("%s", err)
		return
	}
	if n := strings.Count(r.Path, "{item}"); r.Kind == "buy" && n != 1 {
		bad("has {item} %d times, right for a buy route is once", n)
	}
	literal := "/" + strings.Join(segments, "/")
	if literal == prefix || strings.HasPrefix(literal, prefix+"/") {
		bad("lies under listen.prefix (%s), which weir answers itself; right is another path", clip(prefix))
	}
}

// splitPattern gives the segments, or what is wrong.
func splitPattern(p string) (segments []string, fault string) {
	const right = "right is such as /buy/{item} or /{rest...}"
	if !strings.HasPrefix(p, "/") {
		return nil, "does not begin with a slash, " + right
	}
	if p == "/" {
		return []string{""}, ""
	}
	segments = strings.Split(p[1:], "/")
	names := map[string]bool{}
	for i, s := range segments {
		inner, open := strings.CutPrefix(s, "{")
		inner, closed := strings.CutSuffix(inner, "}")
		if !open || !closed {
			if !plainPath("/" + s) {
				return nil, "has the segment " + clip(fmt.Sprintf("%q", s)) + ", which no canonical path has; " + right
			}
			continue
		}
		name, rest := strings.CutSuffix(inner, "...")
		switch {
		case rest && i < len(segments)-1:
			return nil, "goes on after {" + clip(name) + "...}, " + right
		case !nameForm.MatchString(name):
			return nil, "has a wildcard without a usable name, " + right
		case names[name]:
			return nil, "has {" + clip(name) + "} twice, right is once"
		}
		names[name] = true
	}
	return segments, ""
}

// patternShape is a pattern without its wildcards' names: equal shapes match the same paths.
func patternShape(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		switch {
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "...}"):
			segments[i] = "{...}"
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}
