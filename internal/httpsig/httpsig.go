// Package httpsig signs and verifies HTTP requests between weir and the shop.
//
// It knows one profile of RFC 9421 and nothing else: one signature with the
// label "weir", hmac-sha256, over "@method", "@path", "@query",
// "content-digest", every Weir-* header present and the Idempotency-Key. Being
// narrow is the point: there is no algorithm to choose, and nothing that
// carries meaning can travel unsigned. It is not a general RFC 9421 library.
//
// There is no nonce. A replayed request repeats its Idempotency-Key, and the
// receiver answers a known key with the earlier result.
package httpsig

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Label names weir's signature in Signature-Input and Signature.
const Label = "weir"

// Algorithm is the only value of the alg parameter.
const Algorithm = "hmac-sha256"

// MaxAhead is how far the signer's clock may run before the verifier's.
const MaxAhead = 5 * time.Second

const (
	contentDigest  = "content-digest"
	idempotencyKey = "idempotency-key"
	weirPrefix     = "weir-"
)

// Why a signature was refused. Errors of Verify and VerifyRequest wrap one of
// these; which one is for the log, the caller is told "401" only.
var (
	ErrMalformed  = errors.New("signature malformed")
	ErrDuplicate  = errors.New("signature, component or header given twice")
	ErrMissing    = errors.New("a component is not covered by the signature")
	ErrUncovered  = errors.New("signature covers a component that is not in the request")
	ErrAlgorithm  = errors.New("signature algorithm is not " + Algorithm)
	ErrUnknownKey = errors.New("signing key unknown")
	ErrTooOld     = errors.New("signature too old")
	ErrFuture     = errors.New("signature created in the future")
	ErrDigest     = errors.New("content digest does not match the body")
	ErrSignature  = errors.New("signature does not match")
)

// Message is the signed part of a request.
type Message struct {
	Method   string // as sent, case matters
	Path     string // as sent, still percent-encoded; "" counts as "/"
	RawQuery string // without the "?"
	// Header holds lower-case names: content-digest, idempotency-key and
	// weir-…; other names are not signed. Values without surrounding spaces.
	Header map[string]string
}

// Digest is the value of Content-Digest (RFC 9530, sha-256) for body, which
// may be empty.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// Sign returns the values of Signature-Input and Signature for m, which must
// carry its content-digest. Both are empty when m cannot be signed: a header
// with a line break, a message without content-digest, or a key id outside
// printable ASCII. A verifier refuses such a request.
func Sign(key []byte, keyID string, created time.Time, m Message) (input, signature string) {
	names := required(m)
	if !slices.Contains(names, contentDigest) {
		return "", ""
	}
	params, err := httpsfv.Marshal(innerList(names, keyID, created))
	if err != nil {
		return "", ""
	}
	text, err := base(m, names, params)
	if err != nil {
		return "", ""
	}
	return Label + "=" + params, Label + "=:" + base64.StdEncoding.EncodeToString(mac(key, text)) + ":"
}

// required lists what a signature of m must cover, in the order weir signs.
func required(m Message) []string {
	names := []string{"@method", "@path", "@query"}
	if _, ok := m.Header[contentDigest]; ok {
		names = append(names, contentDigest)
	}
	own := make([]string, 0, len(m.Header))
	for name := range m.Header {
		if strings.HasPrefix(name, weirPrefix) {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	names = append(names, own...)
	if _, ok := m.Header[idempotencyKey]; ok {
		names = append(names, idempotencyKey)
	}
	return names
}

func innerList(names []string, keyID string, created time.Time) httpsfv.InnerList {
	list := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range names {
		list.Items = append(list.Items, httpsfv.NewItem(name))
	}
	list.Params.Add("created", created.Unix())
	list.Params.Add("keyid", keyID)
	list.Params.Add("alg", Algorithm)
	return list
}

// base is the signature base of RFC 9421 §2.5 for m.
func base(m Message, names []string, params string) (string, error) {
	lines := make([]line, 0, len(names))
	for _, name := range names {
		value, err := component(m, name)
		if err != nil {
			return "", err
		}
		lines = append(lines, line{name, value})
	}
	return signatureBase(lines, params), nil
}

// component is the value of one covered component (RFC 9421 §2.1 and §2.2).
func component(m Message, name string) (string, error) {
	value, ok := "", true
	switch name {
	case "@method":
		value = m.Method
	case "@path": // §2.2.6: an empty path is "/"
		if value = m.Path; value == "" {
			value = "/"
		}
	case "@query": // §2.2.7: the "?" belongs to it, also without a query
		value = "?" + m.RawQuery
	default:
		if value, ok = m.Header[name]; !ok || !signable(name) {
			return "", ErrUncovered
		}
		value = strings.Trim(value, " \t")
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return "", ErrMalformed
	}
	return value, nil
}

func signable(name string) bool {
	return name == contentDigest || name == idempotencyKey || strings.HasPrefix(name, weirPrefix)
}

// line is one component of a signature base.
type line struct{ name, value string }

// signatureBase joins components as RFC 9421 §2.5 does; params is the
// serialized inner list with its parameters.
func signatureBase(lines []line, params string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(`"` + l.name + `": ` + l.value + "\n")
	}
	b.WriteString(`"@signature-params": ` + params)
	return b.String()
}

// mac is RFC 9421 §3.3.3.
func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
