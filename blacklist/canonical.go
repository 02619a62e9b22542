package blacklist

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxValue bounds a value, in bytes; a longer one is a mistake or an attack.
const maxValue = 256

// Canonical gives the one spelling of value under which it is stored, looked
// up and shown. Addresses lose their zone and the IPv4-mapped form, networks
// their host bits; user and device ids are trimmed and NFC, their case kept.
//
// It refuses, with ErrInvalidEntry: an empty or over-long value, control and
// invisible characters (two ids that look alike must not be two ids), a mapped
// network shorter than /96 (masking would turn it into a piece of IPv6) and
// the networks that hold everybody.
func Canonical(scope Scope, value string) (string, error) {
	switch scope {
	case User, Addr, CIDR, Device:
	default:
		return "", invalid("scope", shorten(string(scope)), "is none of user, addr, cidr, device")
	}
	v := strings.TrimSpace(value)
	if len(v) > maxValue {
		return "", invalid("value", shorten(v), fmt.Sprintf("is longer than %d bytes", maxValue))
	}
	if v == "" {
		return "", invalid("value", value, "is empty")
	}
	switch scope {
	case Addr:
		a, err := parseAddr(v)
		if err != nil {
			return "", err
		}
		return a.String(), nil
	case CIDR:
		p, err := parsePrefix(v)
		if err != nil {
			return "", err
		}
		return p.String(), nil
	}
	return canonicalName(v)
}

func parseAddr(v string) (netip.Addr, error) {
	a, err := netip.ParseAddr(v)
	if err != nil {
		return netip.Addr{}, invalid("value", v, "is not an IP address (a network has scope cidr)")
	}
	return bare(a), nil
}

// bare drops what makes two spellings of one address differ: netip and bart
// take ::ffff:1.2.3.4 and 1.2.3.4 for strangers.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func parsePrefix(v string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return netip.Prefix{}, invalid("value", v, "is not a network in CIDR form, e.g. 192.0.2.0/24")
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, invalid("value", v, "is an IPv4-mapped network shorter than /96")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Bits() == 0 {
		return netip.Prefix{}, invalid("value", v, "holds every address")
	}
	return p.Masked(), nil
}

func canonicalName(v string) (string, error) {
	if !utf8.ValidString(v) {
		return "", invalid("value", v, "is not UTF-8")
	}
	v = norm.NFC.String(v)
	if len(v) > maxValue { // composing can make a few exotic letters longer
		return "", invalid("value", shorten(v), fmt.Sprintf("is longer than %d bytes", maxValue))
	}
	if r, found := hidden(v); found {
		return "", invalid("value", v, fmt.Sprintf("holds the control or invisible character %U", r))
	}
	return v, nil
}

// hidden finds the first character of s that a reader cannot see.
func hidden(s string) (rune, bool) {
	for _, r := range s {
		if r < 0x7f && r >= 0x20 {
			continue
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
			unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return r, true
		}
	}
	return 0, false
}

func invalid(field, value, why string) error {
	return fmt.Errorf("%w: %s %q %s", ErrInvalidEntry, field, value, why)
}

// shorten keeps a refused value readable in an error text.
func shorten(v string) string {
	const keep = 64
	if len(v) <= keep {
		return v
	}
	return strings.ToValidUTF8(v[:keep], "") + "…"
}
