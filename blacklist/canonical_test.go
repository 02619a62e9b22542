package blacklist

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestCanonicalGivesOneSpelling(t *testing.T) {
	for _, c := range []struct {
		scope     Scope
		in, value string
	}{
		{Addr, "1.2.3.4", "1.2.3.4"},
		{Addr, " 1.2.3.4\n", "1.2.3.4"},
		{Addr, "::ffff:1.2.3.4", "1.2.3.4"},
		{Addr, "0:0:0:0:0:ffff:0102:0304", "1.2.3.4"},
		{Addr, "fe80::1%eth0", "fe80::1"},
		{Addr, "2001:DB8::0001", "2001:db8::1"},
		{CIDR, "1.2.3.4/24", "1.2.3.0/24"},
		{CIDR, "1.2.3.4/32", "1.2.3.4/32"},
		{CIDR, "::ffff:1.2.3.4/120", "1.2.3.0/24"},
		{CIDR, "2001:db8::1/32", "2001:db8::/32"},
		{User, "  alice ", "alice"},
		{User, "Alice", "Alice"},
		{User, "e\u0301", "\u00e9"},
		{User, "a b:c", "a b:c"},
		{Device, "d-1", "d-1"},
	} {
		got, err := Canonical(c.scope, c.in)
		if err != nil || got != c.value {
			t.Errorf("Canonical(%s, %q) = %q, %v; want %q", c.scope, c.in, got, err, c.value)
		}
	}
}

func TestCanonicalRefusesWhatCannotBeBanned(t *testing.T) {
	for _, c := range []struct {
		scope Scope
		in    string
	}{
		{"", "x"}, {"net", "1.2.3.0/24"}, {"USER", "alice"},
		{User, ""}, {User, "   "}, {User, "a\x00b"}, {User, "a\nb"}, {User, "alice\u200b"},
		{User, "\u202ealice"}, {User, "a\ufe0f"}, {User, "\u3164"}, {User, "\xff\xfe"},
		{User, strings.Repeat("a", 257)}, {Device, strings.Repeat("é", 129)},
		{Addr, "1.2.3"}, {Addr, "1.2.3.4/32"}, {Addr, "01.2.3.4"}, {Addr, "0x7f.1"},
		{Addr, "2130706433"}, {Addr, "1.2.3.4 # note"}, {Addr, "localhost"},
		{CIDR, "1.2.3.4"}, {CIDR, "1.2.3/24"}, {CIDR, "010.1.1.1/8"}, {CIDR, "1.2.3.4/+24"},
		{CIDR, "1.2.3.4/033"}, {CIDR, "1.2.3.4/33"}, {CIDR, "fe80::1%eth0/64"},
		{CIDR, "0.0.0.0/0"}, {CIDR, "9.9.9.9/0"}, {CIDR, "::/0"}, {CIDR, "::ffff:0:0/96"},
		{CIDR, "::ffff:1.2.3.0/24"}, {CIDR, "::ffff:1.2.3.0/95"},
	} {
		got, err := Canonical(c.scope, c.in)
		if !errors.Is(err, ErrInvalidEntry) {
			t.Errorf("Canonical(%s, %q) = %q, %v; want ErrInvalidEntry", c.scope, c.in, got, err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, scope := range []Scope{User, Addr, CIDR, Device, "other"} {
		for _, v := range []string{"", "alice", "::ffff:1.2.3.4/120", "1.2.3.0/24", "fe80::1%x", "e\u0301", "\x00"} {
			f.Add(string(scope), v)
		}
	}
	f.Fuzz(func(t *testing.T, scope, value string) {
		got, err := Canonical(Scope(scope), value)
		if err != nil {
			if !errors.Is(err, ErrInvalidEntry) || got != "" {
				t.Fatalf("refusal of %q: %q, %v", value, got, err)
			}
			return
		}
		again, err := Canonical(Scope(scope), got)
		if err != nil || again != got {
			t.Fatalf("canonical form %q of %q becomes %q, %v", got, value, again, err)
		}
		if len(got) == 0 || len(got) > maxValue {
			t.Fatalf("length %d", len(got))
		}
		p, isNet := prefixOf(Scope(scope), got)
		if isNet && (p.Addr().Is4In6() || p.Addr().Zone() != "" || p.Masked() != p) {
			t.Fatalf("%q is not bare: %s", got, p)
		}
		if isNet && Scope(scope) == CIDR && p.Bits() == 0 {
			t.Fatalf("%q holds everybody", got)
		}
	})
}

func BenchmarkCheckAddr(b *testing.B) {
	d := newDraft()
	for i := range 200_000 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		d.store(Addr, a.String(), &Entry{Scope: Addr})
	}
	l := new(List)
	l.now = fixedClock
	l.show(&d.snapshot)
	a := netip.MustParseAddr("::ffff:10.1.2.3")
	b.ReportAllocs()
	for b.Loop() {
		if _, hit := l.CheckAddr(a); !hit {
			b.Fatal("missed")
		}
	}
}
