package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The catalogue that the feature table of README.md answers: how many mechanisms
// each source has, which of them ask for nothing, and which are to be replaced.
var (
	catalogue = map[string]int{"S0": 12, "S1": 17, "S2": 11, "S3": 36, "S4": 19}
	onlyFacts = strings.Fields("S0-6 S1-1 S1-2 S1-4 S2-1 S2-11 S3-7 S3-26 S3-36 S4-1")
	replaced  = strings.Fields("S0-8 S0-9 S0-10 S0-11 S0-12 S1-5 S1-6 S1-9 S1-10 S1-11 S2-3 S2-4 S2-6 S2-9 S2-10 S3-9 S3-20 S3-25 S4-19")
)

var (
	featureRow = regexp.MustCompile(`(?m)^\| (S\d-\d+) \|(.*)\|$`)
	factsLine  = regexp.MustCompile(`(?m)^Facts that ask for nothing .*$`)
	sourceID   = regexp.MustCompile(`S\d-\d+`)
	totals     = regexp.MustCompile(`\*\*(\d+) mechanisms: (\d+) work, (\d+) partly, (\d+) not yet, (\d+) replaced\.\*\*`)
	quoted     = regexp.MustCompile("`([^`]+)`")
	testName   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// feature is one row of the table.
type feature struct{ id, state, where, tests string }

func readFeatures(t *testing.T, readme string) []feature {
	t.Helper()
	var all []feature
	for _, m := range featureRow.FindAllStringSubmatch(readme, -1) {
		cells := strings.Split(m[2], "|")
		if len(cells) != 4 {
			t.Fatalf("%s: %d cells behind the id, want mechanism, state, where, test", m[1], len(cells))
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, feature{m[1], cells[1], cells[2], cells[3]})
	}
	return all
}

func readReadme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(moduleRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheFeatureTableNamesEachMechanismOnce(t *testing.T) {
	readme := readReadme(t)
	seen := map[string]int{}
	for _, f := range readFeatures(t, readme) {
		seen[f.id]++
	}
	facts := sourceID.FindAllString(factsLine.FindString(readme), -1)
	if !slices.Equal(facts, onlyFacts) {
		t.Errorf("the facts line names %v, want %v", facts, onlyFacts)
	}
	for _, id := range facts {
		seen[id]++
	}
	for source, n := range catalogue {
		for i := range n {
			id := fmt.Sprintf("%s-%d", source, i+1)
			if seen[id] != 1 {
				t.Errorf("%s stands %d times, want once", id, seen[id])
			}
			delete(seen, id)
		}
	}
	for id := range seen {
		t.Errorf("%s is no mechanism of the sources", id)
	}
}

func TestTheFeatureTotalsAreThoseOfTheRows(t *testing.T) {
	readme := readReadme(t)
	count := map[string]int{}
	rows := readFeatures(t, readme)
	for _, f := range rows {
		count[f.state]++
	}
	m := totals.FindStringSubmatch(readme)
	if m == nil {
		t.Fatal("there is no line of totals")
	}
	for i, want := range []int{len(rows), count["works"], count["partly"], count["not yet"], count["replaced"]} {
		if got, _ := strconv.Atoi(m[i+1]); got != want {
			t.Errorf("number %d of the totals is %d, the rows give %d", i+1, got, want)
		}
	}
}

func TestEachFeatureThatStandsNamesATestThatExists(t *testing.T) {
	root := moduleRoot(t)
	house, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range house.files {
		for _, m := range testName.FindAllSubmatch(f.src, -1) {
			known[string(m[1])] = f.test()
		}
	}
	for _, f := range readFeatures(t, readReadme(t)) {
		for _, fault := range f.faults(root, known) {
			t.Errorf("%s (%s): %s", f.id, f.state, fault)
		}
	}
}

// faults are the reasons not to believe a row.
func (f feature) faults(root string, known map[string]bool) (faults []string) {
	mayReplace := slices.Contains(replaced, f.id)
	switch {
	case !slices.Contains([]string{"works", "partly", "not yet", "replaced"}, f.state):
		faults = append(faults, "is no state of a feature")
	case f.state == "replaced" && !mayReplace, f.state == "works" && mayReplace:
		faults = append(faults, "the sources' own list says otherwise")
	}
	tests := quoted.FindAllStringSubmatch(f.tests, -1)
	untested := f.state == "not yet" || f.state == "partly" && strings.Contains(f.where, "no test yet")
	if untested != (len(tests) == 0) {
		faults = append(faults, "must name a test, or stand as not yet or with the words no test yet")
	}
	for _, m := range tests {
		if !known[m[1]] {
			faults = append(faults, "there is no test "+m[1])
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(f.where, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); strings.Contains(m[1], "/") && err != nil {
			faults = append(faults, "there is no "+m[1])
		}
	}
	return faults
}
