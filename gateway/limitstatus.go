package gateway

import (
	"errors"
	"net/netip"
	"strings"

	"weir/limiter"
)

// LimitStatus is one limit layer as this replica sees it.
type LimitStatus struct {
	limiter.Layer
	limiter.LayerStats
	Top []limiter.Offender // who is refused most of late, keys as people write them
}

// Limits are all limit layers, in the order in which a request meets them, with
// at most top offenders each. Meant for people, not for each request.
func (g *Gateway) Limits(top int) []LimitStatus {
	var all []LimitStatus
	for _, s := range g.limits() {
		stats := s.Stats()
		for i, l := range s.Layers() {
			status := LimitStatus{Layer: l, LayerStats: stats[i], Top: s.Top(l.Name, top)}
			for j := range status.Top {
				status.Top[j].Key = writtenKey(status.Top[j].Key, l.Name)
			}
			all = append(all, status)
		}
	}
	return all
}

// writtenKey is a layer's key as people write it: addresses and networks are
// kept as bytes, see addrKey and networkKey.
func writtenKey(key, layer string) string {
	if layer != "address" && layer != "network" && layer != "signature" {
		return strings.ToValidUTF8(key, "\uFFFD")
	}
	var v6 [16]byte
	switch {
	case len(key) == 4:
		return netip.AddrFrom4([4]byte([]byte(key))).String()
	case len(key) == 3:
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{key[0], key[1], key[2]}), 24).String()
	case len(key) == 8 || len(key) == 6:
		copy(v6[:], key)
		return netip.PrefixFrom(netip.AddrFrom16(v6), 8*len(key)).String()
	}
	return strings.ToValidUTF8(key, "\uFFFD")
}

// LimitKey is the key that a layer keeps for what people write: a user, a device,
// an item or a route as it is, an address, or a network of the layer's length. It
// says what is right when it is none.
func LimitKey(layer, text string) (string, error) {
	var buf [16]byte
	switch layer {
	case "address", "signature":
		a, err := netip.ParseAddr(strings.TrimSuffix(text, "/64"))
		if err != nil || a.Zone() != "" {
			return "", errors.New("is no address, right is e.g. 203.0.113.9 or 2001:db8::1")
		}
		return strings.Clone(addrKey(&buf, a.Unmap())), nil
	case "network":
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() || p.Addr().Is4() && p.Bits() != 24 || p.Addr().Is6() && p.Bits() != 48 || p.Addr().Is4In6() {
			return "", errors.New("is no network of this layer, right is e.g. 203.0.113.0/24 or 2001:db8:1::/48")
		}
		return strings.Clone(networkKey(&buf, p.Addr())), nil
	}
	if text == "" || len(text) > 256 {
		return "", errors.New("must have 1 to 256 bytes")
	}
	return text, nil
}
