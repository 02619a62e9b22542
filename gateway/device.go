package gateway

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/netip"
	"strings"
	"time"
	"unsafe"

	"github.com/golang-jwt/jwt/v5"
	"github.com/valyala/fasthttp"
)

// A device is a browser that kept our cookie: 12 random bytes and a MAC, so
// that ids cannot be made up by the thousand without asking us each time.
const deviceBytes, deviceMAC = 12, 12

// deviceOf reads the device; "" when there is none or it is forged.
func (w *identifier) deviceOf(x *exchange) string {
	h := &x.c.Request().Header
	if w.cfg.DeviceHeader != "" && x.caller.trusted {
		if d := text(h.Peek(w.cfg.DeviceHeader)); validUser(d) {
			return strings.Clone(d)
		}
	}
	if w.cfg.DeviceCookie == "" {
		return ""
	}
	cookie := text(h.Cookie(w.cfg.DeviceCookie))
	if len(cookie) != base64.RawURLEncoding.EncodedLen(deviceBytes+deviceMAC) {
		return ""
	}
	var raw [deviceBytes + deviceMAC]byte
	if _, err := base64.RawURLEncoding.Decode(raw[:], []byte(cookie)); err != nil {
		return ""
	}
	want := sum(w.device, string(raw[:deviceBytes]))
	if !hmac.Equal(raw[deviceBytes:], want[:deviceMAC]) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw[:deviceBytes])
}

// markDevice gives a browser without a device cookie one, on weir's own pages.
func (g *Gateway) markDevice(x *exchange) {
	name := g.cfg.Identity.DeviceCookie
	if name == "" || x.caller.Device != "" {
		return
	}
	var raw [deviceBytes]byte
	rand.Read(raw[:])
	value := append(raw[:], sum(g.cfg.Keys.Device, string(raw[:]))[:deviceMAC]...)
	g.setCookie(x, name, base64.RawURLEncoding.EncodeToString(value), 365*24*time.Hour, fasthttp.CookieSameSiteLaxMode)
}

// fits says whether key may verify tokens of this method.
func fits(m jwt.SigningMethod, key any) bool {
	switch key.(type) {
	case *rsa.PublicKey:
		return m.Alg() == "RS256"
	case ed25519.PublicKey:
		return m.Alg() == "EdDSA"
	}
	return false
}

// addrKey is the limiter key of one caller's address: the address for IPv4,
// its /64 for IPv6, since one household has a whole /64. The string lies in
// buf and is valid as long as buf is untouched.
func addrKey(buf *[16]byte, a netip.Addr) string {
	if a.Is4() {
		v := a.As4()
		return view(buf, v[:])
	}
	v := a.As16()
	return view(buf, v[:8])
}

// networkKey is the wider net: /24 for IPv4, /48 for IPv6.
func networkKey(buf *[16]byte, a netip.Addr) string {
	if a.Is4() {
		v := a.As4()
		return view(buf, v[:3])
	}
	v := a.As16()
	return view(buf, v[:6])
}

func view(buf *[16]byte, b []byte) string {
	n := copy(buf[:], b)
	return unsafe.String(&buf[0], n)
}
