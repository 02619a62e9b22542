package main

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Secret is a text that must not be seen. Every way of printing it, also inside
// other values, gives a mask; Reveal gives the text.
type Secret struct{ text string }

const (
	maskSet     = "***set***"
	maskMissing = "***not set***"
)

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal gives the bytes to compute with. Do not log them.
func (s Secret) Reveal() []byte { return []byte(s.text) }

// Set says whether there is a secret.
func (s Secret) Set() bool { return s.text != "" }

// String is the mask.
func (s Secret) String() string {
	if s.Set() {
		return maskSet
	}
	return maskMissing
}

// Format masks every verb of fmt, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText masks JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// deriveKey makes the 32-byte key for one use of the master secret, so that no
// two uses share a key (HKDF-SHA256, RFC 5869, info "weir/v1/" + label).
func deriveKey(secret []byte, label string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "weir/v1/"+label, 32)
	if err != nil {
		panic("deriving a 32-byte key: " + err.Error()) // only a length over 8160 can fail
	}
	return key
}
