package inventory

import (
	"strings"
	"testing"
)

func TestOrderID_NamesItsSaleAndIsUnique(t *testing.T) {
	a, b := NewOrderID("demo", "ann"), NewOrderID("demo", "ann")
	if a == b || !ValidOrderID(a) || len(a) != orderIDLen {
		t.Fatalf("%q %q", a, b)
	}
	if a[:saleTagLen] != saleTag("demo") || a[:saleTagLen] != b[:saleTagLen] {
		t.Fatalf("%q does not begin with the sale's tag %q", a, saleTag("demo"))
	}
	if a[:14] != b[:14] { // 9 bytes = 72 bits = 14 whole characters
		t.Fatalf("same user, other home: %q %q", a, b)
	}
}

func TestDeriveOrderID_DependsOnEachPart(t *testing.T) {
	key := []byte("k")
	same := DeriveOrderID(key, "demo", "ann", "1")
	if same != DeriveOrderID(key, "demo", "ann", "1") || !ValidOrderID(same) {
		t.Fatalf("%q", same)
	}
	for _, other := range []string{
		DeriveOrderID([]byte("l"), "demo", "ann", "1"), DeriveOrderID(key, "dem", "oann", "1"),
		DeriveOrderID(key, "demo", "ann1", ""), DeriveOrderID(key, "demo", "ann", "2"),
	} {
		if other == same {
			t.Fatalf("%q twice", same)
		}
	}
}

func TestValidOrderID_RefusesOtherSpellings(t *testing.T) {
	id := NewOrderID("demo", "ann")
	last := id[len(id)-1:]
	for _, bad := range []string{
		"", id[1:], id + "a", strings.ToUpper(id), id[:30] + "=", id[:30] + "!", id[:30] + "\n",
		id[:30] + string(rune(last[0])+1), // unused bits of the last character set
		strings.Repeat("ü", 15) + "a",
	} {
		if ValidOrderID(bad) {
			t.Errorf("%q is taken for an order id", bad)
		}
	}
}
