package gateway

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// documentedRow is how docs/api.md begins the line of an outcome; what follows
// is for people.
func documentedRow(r row) string {
	status := "the shop's"
	if r.status != 0 {
		status = strconv.Itoa(r.status)
	}
	retry, offence := "–", "no"
	if r.retry > 0 {
		retry = "yes"
	}
	if r.offence {
		offence = "yes"
	}
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s | ", status, r.code, r.title, retry, offence)
}

func TestEachOutcomeIsDocumented(t *testing.T) {
	doc := outcomesOfTheDocs(t)
	for k := Forwarded; k < kinds; k++ {
		if n := strings.Count(doc, "\n"+documentedRow(table[k])); n != 1 {
			t.Errorf("docs/api.md has %d lines for outcome %d, want one that begins: %s", n, k, documentedRow(table[k]))
		}
	}
}

func TestNoOutcomeIsDocumentedThatDoesNotExist(t *testing.T) {
	lines := regexp.MustCompile("(?m)^\\| (?:\\d{3}|the shop's) \\| `.*$").FindAllString(outcomesOfTheDocs(t), -1)
	if want := int(kinds - Forwarded); len(lines) != want {
		t.Errorf("docs/api.md lists %d outcomes, there are %d", len(lines), want)
	}
}

func outcomesOfTheDocs(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(b), "\n### Outcomes\n")
	section, _, closed := strings.Cut(after, "\n## ")
	if !found || !closed {
		t.Fatal("docs/api.md has no section Outcomes")
	}
	return section
}
