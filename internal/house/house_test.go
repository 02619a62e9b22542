// Package house keeps the plan of the house: which package may import which, and how the code
// looks. Each rule says why it is there; whoever wants to break one changes the reason first.
package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// rule is one law of the house.
type rule struct {
	name   string
	why    string
	check  func(*tree) []string // what breaks it
	breaks map[string]string    // a small module that breaks it once: path → source
}

// rules returns all of them.
func rules() []rule {
	return append(importRules(), codeRules()...)
}

func importRules() []rule {
	return []rule{
		{"no leaf imports another leaf",
			"each mechanism can then be read, tested and replaced alone, and no refusal of one hides in another",
			leavesApart,
			module1("limiter/a.go", "package limiter\nimport _ \"weir/captcha\"\n")},
		{"leaves know neither HTTP nor YAML nor flags, not even through internal/",
			"they take values; so the same stock logic serves the gateway, the console, a command and a test",
			leavesPlain,
			map[string]string{
				"inventory/a.go":  "package inventory\n\nimport _ \"weir/internal/x\"\n",
				"internal/x/a.go": "package x\n\nimport _ \"net/http\"\n",
			}},
		{"leaves import of this module only internal/",
			"the arrows point down; a leaf that knows the gateway is part of it",
			leavesLookDown,
			module1("captcha/a.go", "package captcha\n\nimport _ \"weir/gateway\"\n")},
		{"fiber and fasthttp only under gateway/",
			"their strings die with the handler; a border that is one package wide can be watched",
			webOnlyInGateway,
			module1("cmd/weir/a.go", "package main\n\nimport _ \"github.com/gofiber/fiber/v2\"\n")},
		{"gateway and gateway/admin do not reach each other",
			"the public side must not carry the keys of the private one, and the console must work when the gateway does not",
			planesApart,
			map[string]string{
				"gateway/a.go":       "package gateway\n\nimport _ \"weir/gateway/b\"\n",
				"gateway/b/b.go":     "package b\n\nimport _ \"weir/gateway/admin\"\n",
				"gateway/admin/a.go": "package admin\n",
			}},
		{"nothing imports a program",
			"cmd/ wires the parts; parts that know how they are wired cannot be wired otherwise",
			nothingImportsPrograms,
			module1("gateway/a.go", "package gateway\n\nimport _ \"weir/cmd/weir\"\n")},
		{"YAML and flags only in programs",
			"a setting is read in one place, checked there, and reaches the rest as a value",
			settingsOnlyInPrograms,
			module1("gateway/a.go", "package gateway\n\nimport _ \"github.com/goccy/go-yaml\"\n")},
		{"environment, signals and exit only in programs",
			"code that ends the process or reads the environment can neither be tested beside itself nor stopped in order",
			outsideOnlyInPrograms,
			module1("gateway/a.go", "package gateway\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n")},
	}
}

func codeRules() []rule {
	return []rule{
		{"the keys of a leaf are spelled in its keys.go, and in no script",
			"whoever wants to know what lies in Redis reads one file, and a cluster needs every key to come through KEYS",
			keysInOneFile,
			map[string]string{
				"limiter/a.go":    "package limiter\n\nconst k = \"weir:lim:\"\n",
				"limiter/keys.go": "package limiter\n\nconst ok = \"weir:lim:\"\n",
				"limiter/log.go":  "package limiter\n\nconst text = \"weir: it failed\"\n",
			}},
		{"no init function",
			"what runs before main cannot be ordered, given values, or left out by a test",
			noInit,
			module1("limiter/a.go", "package limiter\n\nfunc init() {}\n")},
		{"no package-level variable that changes",
			"two gateways in one process, as in the tests, would share it",
			noSharedState,
			map[string]string{
				"limiter/a.go": "package limiter\n\nvar table = map[string]int{\"a\": 1}\n\nfunc f() int { return table[\"a\"] }\n",
				"limiter/b.go": "package limiter\n\nvar seen = map[string]int{}\n",
				"limiter/c.go": "package limiter\n\nfunc g() { seen[\"a\"]++ }\n\nfunc h() { seen := map[string]int{}; seen[\"a\"]++ }\n",
			}},
		{"every file is formatted",
			"a diff shows what changed and nothing else",
			formatted,
			module1("limiter/a.go", "package limiter\nfunc f( ) {}\n")},
		{"no function is longer than 70 lines",
			"what does not fit on a screen is not read to its end",
			shortFunctions,
			module1("limiter/a.go", "package limiter\n\nfunc f() {\n"+strings.Repeat("\tf()\n", 69)+"}\n")},
		{"no path of somebody's machine",
			"it works there only, and tells strangers about it",
			noMachinePath,
			module1("docs/a.md", "see "+"/home/"+"anna/weir\n")},
	}
}

func module1(path, src string) map[string]string { return map[string]string{path: src} }

func TestTheHouseKeepsItsRules(t *testing.T) {
	house, err := load(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, fault := range r.check(house) {
				t.Error(fault)
			}
			if t.Failed() {
				t.Log("the reason of the rule:", r.why)
			}
		})
	}
}

// A rule that cannot find anything would be kept by every house.
func TestEachRuleFindsTheOneFaultOfItsExample(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			example := fstest.MapFS{}
			for path, src := range r.breaks {
				example[path] = &fstest.MapFile{Data: []byte(src)}
			}
			house, err := load(example)
			if err != nil {
				t.Fatal(err)
			}
			if faults := r.check(house); len(faults) != 1 {
				t.Errorf("%d faults, want 1: %q", len(faults), faults)
			}
		})
	}
}

func TestAnExceptionWithoutUseIsRemoved(t *testing.T) {
	root := moduleRoot(t)
	for key := range mayLookOutside {
		path, name, _ := strings.Cut(key, " ")
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(b), name) {
			t.Errorf("%s does not use %s any more", path, name)
		}
	}
}

// moduleRoot is the nearest folder above that has a go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above")
	return ""
}
