package inventory

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
)

// An order id is base32 (lower case, no padding) of
// 5 bytes hash(sale) ‖ 4 bytes hash(user) ‖ 10 bytes of its own.
// 5 bytes are 8 characters, so the sale's tag is a prefix of the text.
const (
	saleTagBytes = 5
	userTagBytes = 4
	ownBytes     = 10
	orderIDLen   = 31
	saleTagLen   = 8
)

var orderIDText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewOrderID makes a random id that names its sale and its user's home.
func NewOrderID(sale, user string) string {
	var own [ownBytes]byte
	rand.Read(own[:]) // never fails, says crypto/rand
	return orderID(sale, user, own[:])
}

// DeriveOrderID makes the id that the same key, sale, user and idempotency key
// always give: HMAC-SHA256 over the length-prefixed parts.
func DeriveOrderID(key []byte, sale, user, idempotencyKey string) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{sale, user, idempotencyKey} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		mac.Write(n[:])
		mac.Write([]byte(part))
	}
	return orderID(sale, user, mac.Sum(nil)[:ownBytes])
}

// ValidOrderID says whether id has the form of an order id.
func ValidOrderID(id string) bool {
	if len(id) != orderIDLen {
		return false
	}
	var raw [saleTagBytes + userTagBytes + ownBytes + 1]byte
	n, err := orderIDText.Decode(raw[:], []byte(id))
	if err != nil || n != saleTagBytes+userTagBytes+ownBytes {
		return false
	}
	// The last character carries unused bits: only one spelling is valid.
	return orderIDText.EncodeToString(raw[:n]) == id
}

func orderID(sale, user string, own []byte) string {
	raw := make([]byte, 0, saleTagBytes+userTagBytes+ownBytes)
	s, u := sha256.Sum256([]byte(sale)), sha256.Sum256([]byte(user))
	raw = append(raw, s[:saleTagBytes]...)
	if user == "" {
		copy(u[:], own) // without a user the home is that of the order itself
	}
	raw = append(raw, u[:userTagBytes]...)
	raw = append(raw, own...)
	return orderIDText.EncodeToString(raw)
}

// saleTag is the prefix that all order ids of a sale share.
func saleTag(sale string) string {
	s := sha256.Sum256([]byte(sale))
	return orderIDText.EncodeToString(s[:saleTagBytes])
}
