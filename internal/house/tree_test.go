package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree is the parsed module.
type tree struct {
	fset  *token.FileSet
	files []*file
	all   []string // every text file, also those that are not Go
	fsys  fs.FS
}

// file is one Go file.
type file struct {
	path string // from the root of the module, with slashes
	src  []byte
	ast  *ast.File
}

func (f *file) pkg() string   { return path.Dir(f.path) }
func (f *file) test() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) program() bool { return f.ast.Name.Name == "main" }

// imports are the paths that the file imports.
func (f *file) imports() []string {
	var all []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// notOurs are folders that git ignores, or keeps for itself.
var notOurs = map[string]bool{".git": true, "data": true, "bin": true, "node_modules": true}

// textual are the files that a path of somebody's machine can slip into.
var textual = map[string]bool{
	".go": true, ".lua": true, ".md": true, ".yaml": true, ".yml": true, ".json": true, ".html": true,
	".css": true, ".js": true, ".sh": true, ".sql": true, ".service": true, ".txt": true, "": true,
}

// load parses every Go file below the root.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), fsys: fsys}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if notOurs[d.Name()] {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && textual[path.Ext(p)] && p != "weir" { // which is "go build ./cmd/weir"
			t.all = append(t.all, p)
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		return t.parse(p)
	})
	return t, err
}

func (t *tree) parse(p string) error {
	src, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, p, src, parser.ParseComments)
	if err != nil {
		return err
	}
	t.files = append(t.files, &file{path: p, src: src, ast: parsed})
	return nil
}

// code are the files that are built into something: no tests.
func (t *tree) code() []*file {
	return slices.DeleteFunc(slices.Clone(t.files), (*file).test)
}

func (t *tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

// reach returns every package of the module that the code of from imports, directly or not,
// with the import chain that leads there.
func (t *tree) reach(from string) map[string][]string {
	chains := map[string][]string{from: {from}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, f := range t.code() {
			if f.pkg() != queue[0] {
				continue
			}
			for _, imp := range f.imports() {
				p, ours := strings.CutPrefix(imp, module+"/")
				if !ours || chains[p] != nil {
					continue
				}
				chains[p] = append(slices.Clone(chains[queue[0]]), p)
				queue = append(queue, p)
			}
		}
	}
	return chains
}

// under tells whether p is dir or lies below it.
func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}
