package house

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const module = "weir"

// The packages of which the house is built; see the picture in docs/architecture.md.
var (
	leaves   = []string{"limiter", "captcha", "blacklist", "inventory"}
	httpKits = []string{"github.com/gofiber/fiber", "github.com/valyala/fasthttp"}
	yamlKits = []string{"github.com/goccy/go-yaml", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3", "go.yaml.in/yaml"}
	flagKits = []string{"flag", "github.com/spf13/cobra", "github.com/spf13/pflag"}
	// programs are where a person's wishes come in. bench is one too: it measures, and is no part of weir.
	programs = []string{"cmd", "bench"}
)

// leafOf is the leaf that the package belongs to, or "".
func leafOf(pkg string) string {
	for _, l := range leaves {
		if under(pkg, l) {
			return l
		}
	}
	return ""
}

// forbid reports each import of banned packages by the code of the packages that where picks.
func forbid(t *tree, where func(pkg string) bool, banned func(pkg, imp string) bool) []string {
	var faults []string
	for _, f := range t.code() {
		if !where(f.pkg()) {
			continue
		}
		for _, imp := range f.imports() {
			if banned(f.pkg(), imp) {
				faults = append(faults, fmt.Sprintf("%s imports %s", f.path, imp))
			}
		}
	}
	return faults
}

func leavesApart(t *tree) []string {
	return forbid(t, func(p string) bool { return leafOf(p) != "" }, func(pkg, imp string) bool {
		other := leafOf(strings.TrimPrefix(imp, module+"/"))
		return strings.HasPrefix(imp, module+"/") && other != "" && other != leafOf(pkg)
	})
}

// leavesPlain follows the imports into internal/, so that nothing comes in by the back door.
func leavesPlain(t *tree) []string {
	banned := slices.Concat(httpKits, yamlKits, flagKits, []string{"net/http"})
	var faults []string
	for _, leaf := range leaves {
		for pkg, chain := range t.reach(leaf) {
			found := forbid(t, func(p string) bool { return p == pkg }, func(_, imp string) bool {
				return underAny(imp, banned)
			})
			for _, f := range found {
				faults = append(faults, fmt.Sprintf("%s (by %s)", f, strings.Join(chain, " → ")))
			}
		}
	}
	return faults
}

func leavesLookDown(t *tree) []string {
	return forbid(t, func(p string) bool { return leafOf(p) != "" }, func(_, imp string) bool {
		p, ours := strings.CutPrefix(imp, module+"/")
		return ours && leafOf(p) == "" && !under(p, "internal")
	})
}

func webOnlyInGateway(t *tree) []string {
	return forbid(t, func(p string) bool { return !underAny(p, []string{"gateway", "bench"}) }, func(_, imp string) bool {
		return underAny(imp, httpKits)
	})
}

// planesApart looks at chains too: a package between the two would join them just as well.
func planesApart(t *tree) []string {
	var faults []string
	for from, to := range map[string]string{"gateway": "gateway/admin", "gateway/admin": "gateway"} {
		if chain := t.reach(from)[to]; chain != nil {
			faults = append(faults, strings.Join(chain, " → "))
		}
	}
	return faults
}

func nothingImportsPrograms(t *tree) []string {
	return forbid(t, func(string) bool { return true }, func(_, imp string) bool {
		p, ours := strings.CutPrefix(imp, module+"/")
		return ours && underAny(p, programs)
	})
}

func settingsOnlyInPrograms(t *tree) []string {
	kits := slices.Concat(yamlKits, flagKits)
	return forbid(t, func(p string) bool { return !underAny(p, programs) }, func(_, imp string) bool {
		return slices.ContainsFunc(kits, func(k string) bool { return imp == k || (k != "flag" && under(imp, k)) })
	})
}

// outside are the calls by which code talks to the process that it runs in.
var outside = map[string][]string{
	"os":     {"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Exit", "Args"},
	"log":    {"Fatal", "Fatalf", "Fatalln"},
	"signal": {"Notify", "NotifyContext"},
}

// mayLookOutside are the exceptions, each with its reason.
var mayLookOutside = map[string]string{
	"internal/redistest/redistest.go os.Getenv": "a test kit: WEIR_REQUIRE_REAL turns a missing redis-server from a skip into a failure, in one place for all packages",
	"internal/redisd/registry.go os.Getenv":     "XDG_RUNTIME_DIR says where this host keeps what all processes of a user share; it is no setting of weir",
}

func outsideOnlyInPrograms(t *tree) []string {
	var faults []string
	for _, f := range t.code() {
		if underAny(f.pkg(), programs) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || !slices.Contains(outside[x.Name], sel.Sel.Name) {
				return true
			}
			name := x.Name + "." + sel.Sel.Name
			if mayLookOutside[f.path+" "+name] == "" {
				faults = append(faults, fmt.Sprintf("%s:%d uses %s", f.path, t.line(n), name))
			}
			return true
		})
	}
	return faults
}
