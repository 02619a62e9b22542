package main

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with the configuration: where, what, and what is right.
// File and Line are empty when the value does not come from a file.
type Fault struct {
	File string
	Line int    // from 1; 0 = unknown
	Path string // key path such as sales[0].total
	Text string
}

// String is `file:line: key.path: text`, without the parts that are unknown.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is every fault of one configuration, in the order of the file.
type Faults []Fault

// Error puts one fault on each line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// err is nil when there is no fault.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int { return a.Line - b.Line })
}

// places remembers the line of each key path that a file sets.
type places map[string]int

// line finds the line of a path, or of the nearest key above it that was written.
func (p places) line(path string) int {
	for path != "" {
		if n, ok := p[path]; ok {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// covers says whether some fault already stands at path, above or below it, so
// that a second message about the same value would only be noise. A secret that
// was written inline stands for its file.
func (f Faults) covers(path string) bool {
	return slices.ContainsFunc(f, func(g Fault) bool {
		return g.Path == path || g.Path+"_file" == path || below(g.Path, path) || below(path, g.Path)
	})
}

func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}
