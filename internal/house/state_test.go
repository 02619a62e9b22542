package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// noSharedState finds the package-level variables that change: those that a function writes, and those
// whose type is made to be written. It judges by the syntax alone, so it misses a map that is
// handed on and written elsewhere; tables that nobody writes are fine.
func noSharedState(t *tree) []string {
	var faults []string
	byPkg := map[string][]*file{}
	for _, f := range t.code() {
		byPkg[f.pkg()] = append(byPkg[f.pkg()], f)
	}
	for _, files := range byPkg {
		vars := packageVars(files)
		for _, f := range files {
			faults = append(faults, madeToChange(t, f)...)
			faults = append(faults, writes(t, f, vars)...)
		}
	}
	slices.Sort(faults)
	return faults
}

// packageVars are the names that the package declares with var at its top level.
func packageVars(files []*file) map[string]*ast.ValueSpec {
	vars := map[string]*ast.ValueSpec{}
	for _, f := range files {
		eachVar(f, func(spec *ast.ValueSpec) {
			for _, name := range spec.Names {
				vars[name.Name] = spec
			}
		})
	}
	return vars
}

func eachVar(f *file, visit func(*ast.ValueSpec)) {
	for _, d := range f.ast.Decls {
		if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.VAR {
			for _, spec := range gen.Specs {
				visit(spec.(*ast.ValueSpec))
			}
		}
	}
}

// madeToChange finds variables that make no sense unless somebody writes them.
func madeToChange(t *tree, f *file) []string {
	var faults []string
	eachVar(f, func(spec *ast.ValueSpec) {
		bad := false
		switch typ := spec.Type.(type) {
		case *ast.MapType, *ast.ChanType:
			bad = len(spec.Values) == 0
		case *ast.SelectorExpr:
			x, ok := typ.X.(*ast.Ident)
			bad = ok && (x.Name == "sync" || x.Name == "atomic")
		}
		for _, v := range spec.Values {
			if call, ok := v.(*ast.CallExpr); ok {
				fn, ok := call.Fun.(*ast.Ident)
				bad = bad || ok && (fn.Name == "make" || fn.Name == "new")
			}
		}
		if bad {
			faults = append(faults, fmt.Sprintf("%s:%d declares %s, which is made to change", f.path, t.line(spec), spec.Names[0].Name))
		}
	})
	return faults
}

// writes finds assignments to the package's variables, or into them.
func writes(t *tree, f *file, vars map[string]*ast.ValueSpec) []string {
	var faults []string
	check := func(e ast.Expr) {
		if id := root(e); id != nil && isPackageVar(id, vars) {
			faults = append(faults, fmt.Sprintf("%s:%d writes the package's variable %s", f.path, t.line(e), id.Name))
		}
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						check(e)
					}
				}
			case *ast.IncDecStmt:
				check(n.X)
			case *ast.CallExpr:
				if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") {
					check(n.Args[0])
				}
			}
			return true
		})
	}
	return faults
}

// root is the variable at the start of x[i].f and the like.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isPackageVar tells a package's variable from a local one of the same name. The parser has
// resolved what the file declares; the rest is declared in another file.
func isPackageVar(id *ast.Ident, vars map[string]*ast.ValueSpec) bool {
	spec := vars[id.Name]
	return spec != nil && (id.Obj == nil || id.Obj.Decl == spec)
}
