package gateway

import (
	"net"
	"net/netip"
	"strings"
	"unsafe"

	"weir/blacklist"
)

// Caller is who asks. It owns its strings: fiber's die with the handler.
type Caller struct {
	Addr   netip.Addr // of the client, found by walking the trusted proxies
	User   string     // "" is anonymous
	Device string     // "" is unknown
	Secure bool       // the client spoke TLS, to us or to a trusted proxy
	// trusted says that the peer is one of our own proxies.
	trusted bool
}

// address is hop 2, first half: the client's address, and whether it is shut
// out, before anything is spent on reading who it claims to be.
func (g *Gateway) address(x *exchange) Outcome {
	peer := peerAddr(x.c.Context().RemoteAddr())
	x.caller = Caller{Addr: peer, Secure: x.c.Context().IsTLS()}
	if g.who.trusts(peer) {
		x.caller.trusted = true
		x.caller.Addr = g.who.client(peer, x.c.Request().Header.PeekAll("X-Forwarded-For"))
		x.caller.Secure = strings.EqualFold(text(x.c.Request().Header.Peek("X-Forwarded-Proto")), "https")
	}
	if u := g.cfg.PublicURL; u != nil {
		x.caller.Secure = u.Scheme == "https"
	}
	if entry, banned := g.deps.Bans.CheckAddr(x.caller.Addr); banned {
		return shutOut(entry)
	}
	path, _, ok := canonicalPath(text(x.c.Request().Header.RequestURI()))
	if !ok {
		return refuseWith(BadRequest, "The path has more than one reading.")
	}
	x.path = path
	return Outcome{}
}

// blacklist is hop 3: now the user and device are known as well.
func (g *Gateway) blacklist(x *exchange) Outcome {
	q := blacklist.Query{User: x.caller.User, Addr: x.caller.Addr, Device: x.caller.Device}
	if entry, banned := g.deps.Bans.Check(q); banned {
		return shutOut(entry)
	}
	return Outcome{}
}

// shutOut never tells which entry hit, or why: that would help to get around it.
func shutOut(blacklist.Entry) Outcome { return refuse(Blacklisted) }

func (w *identifier) trusts(a netip.Addr) bool {
	for _, p := range w.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// client walks X-Forwarded-For from the right, past our own proxies, to the
// first address that none of them vouches for. All header lines are one list.
// An entry that is no address ends the walk at the nearest trustworthy hop.
func (w *identifier) client(peer netip.Addr, lines [][]byte) netip.Addr {
	nearest := peer
	for i := len(lines) - 1; i >= 0; i-- {
		list := text(lines[i])
		for list != "" {
			entry := list
			if cut := strings.LastIndexByte(list, ','); cut >= 0 {
				list, entry = list[:cut], list[cut+1:]
			} else {
				list = ""
			}
			addr, ok := forwardedAddr(strings.TrimSpace(entry))
			if !ok {
				return nearest
			}
			nearest = addr
			if !w.trusts(addr) {
				return addr
			}
		}
	}
	return nearest
}

// forwardedAddr reads one entry: an address, with or without port or
// brackets; a zone is dropped, a mapped IPv4 unmapped.
func forwardedAddr(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().WithZone("").Unmap(), true
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return a.WithZone("").Unmap(), true
}

func peerAddr(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().WithZone("").Unmap()
	}
	return netip.IPv6Unspecified()
}

// text views b as a string without a copy. It is for reading now; what is
// kept must be cloned.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
