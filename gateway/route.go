package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// RouteKind says what a route leads to.
type RouteKind string

const (
	// Buy routes go through every stage and own a unit when they are forwarded.
	Buy RouteKind = "buy"
	// Proxy routes are limited and forwarded.
	Proxy RouteKind = "proxy"
)

// RouteConfig is one row of the route table. Rows are tried in order.
type RouteConfig struct {
	Name    string
	Methods []string
	// Path is literal segments, {name} for one segment, and {name...} at the
	// end for all the rest. A buy path has {item} once.
	Path    string
	Kind    RouteKind
	Captcha bool // a buy needs a pass
	Auth    bool // a proxied request needs a signed-in user
	// BodyLimit in bytes; 0 takes the listener's.
	BodyLimit int
}

type route struct {
	cfg   RouteConfig
	index int
	parts []part
	lower []part // parts with literals in lower case, for guards
	rest  bool
	allow string
}

type part struct {
	literal string
	name    string // of a parameter; "" for a literal
}

func compileRoutes(cfgs []RouteConfig, prefix string) ([]route, error) {
	var faults []error
	routes := make([]route, 0, len(cfgs))
	for i, cfg := range cfgs {
		r, err := compileRoute(cfg, prefix)
		if err != nil {
			faults = append(faults, fmt.Errorf("routes[%d] %s: %w", i, cfg.Name, err))
			continue
		}
		r.index = i
		routes = append(routes, r)
	}
	return routes, errors.Join(faults...)
}

func compileRoute(cfg RouteConfig, prefix string) (route, error) {
	r := route{cfg: cfg, allow: strings.Join(withEdgeMethods(cfg.Methods), ", ")}
	if !strings.HasPrefix(cfg.Path, "/") {
		return r, fmt.Errorf("path %q: must start with /", cfg.Path)
	}
	if cfg.Path == prefix || strings.HasPrefix(cfg.Path, prefix+"/") {
		return r, fmt.Errorf("path %q: lies under weir's own %s", cfg.Path, prefix)
	}
	items := 0
	segments := strings.Split(cfg.Path[1:], "/")
	for i, s := range segments {
		name, isParam := strings.CutPrefix(s, "{")
		if !isParam {
			r.parts = append(r.parts, part{literal: s})
			continue
		}
		name, closed := strings.CutSuffix(name, "}")
		name, rest := strings.CutSuffix(name, "...")
		if !closed || name == "" || rest && i != len(segments)-1 {
			return r, fmt.Errorf("path %q: bad parameter %q", cfg.Path, s)
		}
		if rest {
			r.rest = true
			continue
		}
		if name == "item" {
			items++
		}
		r.parts = append(r.parts, part{name: name})
	}
	for _, p := range r.parts {
		r.lower = append(r.lower, part{literal: strings.ToLower(p.literal), name: p.name})
	}
	if cfg.Kind == Buy && items != 1 {
		return r, fmt.Errorf("path %q: a buy route needs {item} once", cfg.Path)
	}
	return r, nil
}

// withEdgeMethods adds OPTIONS, which weir answers itself.
func withEdgeMethods(methods []string) []string {
	return append(slices.Clone(methods), "OPTIONS")
}

// match says whether path is r's, and which item it names.
func (r *route) match(path string) (item string, ok bool) { return matchParts(r.parts, r.rest, path) }

func matchParts(parts []part, open bool, path string) (item string, ok bool) {
	rest := path[1:]
	for i, p := range parts {
		segment, tail, more := strings.Cut(rest, "/")
		if last := i == len(parts)-1; !last && !more || last && more && !open {
			return "", false
		}
		switch {
		case p.name == "" && p.literal != segment, p.name != "" && segment == "":
			return "", false
		case p.name == "item":
			item = segment
		}
		rest = tail
	}
	return item, true
}

// guards says whether a lenient shop could take path for r's: with another case,
// or a slash at the end. Such a path is nobody's, or a catch-all would carry a
// buy to the shop that owns no unit.
func (r *route) guards(path string) bool {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return false
	}
	_, ok := matchParts(r.lower, r.rest, strings.ToLower(path))
	return ok
}

// route is hop 4. A path that a buy route guards is that route's alone: with
// another method it is refused, never handed to a later catch-all.
func (g *Gateway) route(x *exchange) Outcome {
	method := text(x.c.Request().Header.Method())
	if x.path == g.cfg.Prefix || strings.HasPrefix(x.path, g.cfg.Prefix+"/") {
		return g.ownRoute(x, method)
	}
	allowed := ""
	for i := range g.routes {
		r := &g.routes[i]
		item, ok := r.match(x.path)
		if !ok && r.cfg.Kind == Buy && r.guards(x.path) {
			return refuse(NotFound)
		}
		if !ok {
			continue
		}
		if slices.Contains(r.cfg.Methods, method) {
			x.route, x.param = r, strings.Clone(item)
			return g.admit(x)
		}
		if allowed == "" {
			allowed = r.allow
		}
		if r.cfg.Kind == Buy {
			break
		}
	}
	switch {
	case allowed == "":
		return refuse(NotFound)
	case method == "OPTIONS":
		return Outcome{Kind: Own, Allow: allowed, answer: answerOptions}
	}
	return Outcome{Kind: Method, Allow: allowed, Detail: "This path takes " + allowed + "."}
}

// admit checks what a route asks of a request before anything is counted.
func (g *Gateway) admit(x *exchange) Outcome {
	r := x.route
	if out := g.sameSite(x); out.Kind != goOn {
		return out
	}
	if (r.cfg.Auth || r.cfg.Kind == Buy) && x.caller.User == "" {
		return refuse(UserRequired)
	}
	if r.cfg.BodyLimit > 0 && len(x.c.Request().Body()) > r.cfg.BodyLimit {
		return refuseWith(TooLarge, fmt.Sprintf("This path takes at most %d bytes.", r.cfg.BodyLimit))
	}
	return Outcome{}
}
