package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// longestFunction is in lines, from "func" to its closing brace.
const longestFunction = 70

// keyText finds a Redis key: weir's prefix with something directly behind it.
var keyText = regexp.MustCompile(`\bweir:[^\s"]`)

func keysInOneFile(t *tree) []string {
	var faults []string
	for _, f := range t.code() {
		if leafOf(f.pkg()) == "" || path.Base(f.path) == "keys.go" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && keyText.MatchString(lit.Value) {
				faults = append(faults, fmt.Sprintf("%s:%d spells %s", f.path, t.line(n), lit.Value))
			}
			return true
		})
	}
	return append(faults, keysInScripts(t)...)
}

func keysInScripts(t *tree) []string {
	var faults []string
	for _, p := range t.all {
		if path.Ext(p) != ".lua" {
			continue
		}
		for i, line := range lines(t, p) {
			code, _, _ := strings.Cut(line, "--")
			if keyText.MatchString(code) {
				faults = append(faults, fmt.Sprintf("%s:%d spells a key", p, i+1))
			}
		}
	}
	return faults
}

func noInit(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				faults = append(faults, fmt.Sprintf("%s:%d", f.path, t.line(fn)))
			}
		}
	}
	return faults
}

func formatted(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		if good, err := format.Source(f.src); err != nil || !bytes.Equal(good, f.src) {
			faults = append(faults, f.path)
		}
	}
	return faults
}

func shortFunctions(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := t.fset.Position(fn.End()).Line - t.line(fn) + 1; n > longestFunction {
				faults = append(faults, fmt.Sprintf("%s:%d %s has %d lines", f.path, t.line(fn), fn.Name.Name, n))
			}
		}
	}
	return faults
}

// machinePath finds a path into somebody's home or scratch folder. It stands in brackets so
// that it does not find itself.
var machinePath = regexp.MustCompile("(^|[\\s\"'=:(`])/(work|root|[Hh]ome/[a-z]+|Users/[A-Za-z]+|tmp/[A-Za-z0-9])[/\\w.-]*")

// notAMachine are texts that only look like one, with the reason.
var notAMachine = map[string]string{}

func noMachinePath(t *tree) []string {
	var faults []string
	for _, p := range t.all {
		if under(path.Dir(p), "internal/house") {
			continue // its tests show what is forbidden
		}
		for i, line := range lines(t, p) {
			if m := machinePath.FindString(line); m != "" && notAMachine[p+" "+strings.TrimSpace(m)] == "" {
				faults = append(faults, fmt.Sprintf("%s:%d says %s", p, i+1, strings.TrimSpace(m)))
			}
		}
	}
	return faults
}

func lines(t *tree, p string) []string {
	b, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\n")
}
