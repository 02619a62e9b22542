package httpsig

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestTheExampleOfTheDocsIsTrue: who builds a shop from docs/api.md alone must
// get the same bytes.
func TestTheExampleOfTheDocsIsTrue(t *testing.T) {
	m := Message{Method: "GET", Path: "/orders", RawQuery: "reservation=fklvc3bvjgiv4djqionttitsfg6na7y", Header: map[string]string{
		"content-digest": Digest(nil), "weir-item": "1001", "weir-reservation": "fklvc3bvjgiv4djqionttitsfg6na7y", "weir-sale": "demo",
	}}
	input, signature := Sign([]byte("0123456789abcdef0123456789abcdef"), "weir-1", time.Unix(1_800_000_000, 0), m)
	docs, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Content-Digest: " + Digest(nil), "Signature-Input: " + input, "Signature: " + signature, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="} {
		if !strings.Contains(string(docs), want) {
			t.Errorf("docs/api.md lacks %q", want)
		}
	}
}
