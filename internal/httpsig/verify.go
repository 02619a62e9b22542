package httpsig

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// maxField bounds each signature field that is parsed, in bytes.
const maxField = 4096

// Key finds the key of a key id; false when there is none.
type Key func(keyID string) ([]byte, bool)

// Verify checks that input and signature (the values of Signature-Input and
// Signature) sign m and that body is the one digested in m. A signature is
// refused when it leaves out a component, is older than maxAge or lies more
// than MaxAhead in the future. The digest is checked last, so that an unsigned
// body is never hashed.
func Verify(keys Key, now time.Time, maxAge time.Duration, m Message, input, signature string, body []byte) error {
	in, err := parseInput(input)
	if err != nil {
		return fmt.Errorf("reading Signature-Input: %w", err)
	}
	sig, err := parseSignature(signature)
	if err != nil {
		return fmt.Errorf("reading Signature: %w", err)
	}
	if err := covers(in.names, m); err != nil {
		return err
	}
	if err := fresh(in.created, now, maxAge); err != nil {
		return err
	}
	key, ok := keys(in.keyID)
	if !ok || len(key) == 0 {
		return ErrUnknownKey
	}
	text, err := base(m, in.names, in.params)
	if err != nil {
		return fmt.Errorf("building the signature base: %w", err)
	}
	if !hmac.Equal(mac(key, text), sig) {
		return ErrSignature
	}
	return checkDigest(m.Header[contentDigest], body)
}

// VerifyRequest verifies a request as a net/http server received it; body is
// what was read from it. A signed header that comes on two lines is refused.
func VerifyRequest(keys Key, now time.Time, maxAge time.Duration, r *http.Request, body []byte) error {
	m := Message{Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Header: make(map[string]string)}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if !signable(name) {
			continue
		}
		if _, twice := m.Header[name]; twice || len(values) != 1 {
			return fmt.Errorf("%w: %s", ErrDuplicate, name)
		}
		m.Header[name] = values[0]
	}
	input, signature := r.Header.Values("Signature-Input"), r.Header.Values("Signature")
	if len(input) > 1 || len(signature) > 1 {
		return fmt.Errorf("%w: Signature", ErrDuplicate)
	}
	if len(input) == 0 || len(signature) == 0 {
		return fmt.Errorf("%w: not signed", ErrMalformed)
	}
	return Verify(keys, now, maxAge, m, input[0], signature[0], body)
}

// parsed is a Signature-Input that keeps to the profile.
type parsed struct {
	names   []string
	created time.Time
	keyID   string
	params  string // the inner list, serialized for the base
}

func parseInput(input string) (parsed, error) {
	member, err := single(input)
	if err != nil {
		return parsed{}, err
	}
	list, ok := member.(httpsfv.InnerList)
	if !ok {
		return parsed{}, ErrMalformed
	}
	var p parsed
	if p.params, err = httpsfv.Marshal(list); err != nil {
		return parsed{}, ErrMalformed
	}
	// The parser keeps the last of two equal parameters: a semicolon too many
	// is the trace of the first.
	if strings.Count(p.params, ";") != strings.Count(input, ";") {
		return parsed{}, ErrDuplicate
	}
	if p.names, err = names(list); err != nil {
		return parsed{}, err
	}
	return p, p.readParams(list.Params)
}

// single parses a dictionary that holds nothing but weir's member.
func single(field string) (httpsfv.Member, error) {
	if len(field) > maxField {
		return nil, ErrMalformed
	}
	dict, err := httpsfv.UnmarshalDictionary([]string{field})
	if err != nil || len(dict.Names()) == 0 {
		return nil, ErrMalformed
	}
	member, ok := dict.Get(Label)
	if !ok {
		return nil, fmt.Errorf("%w: no signature labelled %q", ErrMalformed, Label)
	}
	// Here too the last of two equal members wins silently: count the commas.
	text, err := httpsfv.Marshal(dict)
	if err != nil {
		return nil, ErrMalformed
	}
	if len(dict.Names()) != 1 || strings.Count(text, ",") != strings.Count(field, ",") {
		return nil, ErrDuplicate
	}
	return member, nil
}

// names reads the covered components; none may have parameters or come twice.
func names(list httpsfv.InnerList) ([]string, error) {
	out := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		name, ok := item.Value.(string)
		if !ok || len(item.Params.Names()) > 0 {
			return nil, ErrMalformed
		}
		if slices.Contains(out, name) {
			return nil, fmt.Errorf("%w: %q", ErrDuplicate, name)
		}
		out = append(out, name)
	}
	return out, nil
}

// readParams takes created, keyid and alg and refuses every other parameter:
// one that is not understood could restrict the signature.
func (p *parsed) readParams(params *httpsfv.Params) error {
	if len(params.Names()) != 3 {
		return ErrMalformed
	}
	created, _ := params.Get("created")
	seconds, ok := created.(int64)
	if !ok {
		return ErrMalformed
	}
	keyID, _ := params.Get("keyid")
	if p.keyID, ok = keyID.(string); !ok {
		return ErrMalformed
	}
	alg, _ := params.Get("alg")
	if text, ok := alg.(string); !ok {
		return ErrMalformed
	} else if text != Algorithm {
		return ErrAlgorithm
	}
	p.created = time.Unix(seconds, 0)
	return nil
}

func parseSignature(field string) ([]byte, error) {
	member, err := single(field)
	if err != nil {
		return nil, err
	}
	item, ok := member.(httpsfv.Item)
	if !ok {
		return nil, ErrMalformed
	}
	sig, ok := item.Value.([]byte)
	if !ok || len(sig) != sha256.Size || len(item.Params.Names()) > 0 {
		return nil, ErrMalformed
	}
	return sig, nil
}

// covers checks that covered holds all that m must have signed.
func covers(covered []string, m Message) error {
	if _, ok := m.Header[contentDigest]; !ok {
		return fmt.Errorf("%w: %s", ErrMissing, contentDigest)
	}
	for _, name := range required(m) {
		if !slices.Contains(covered, name) {
			return fmt.Errorf("%w: %s", ErrMissing, name)
		}
	}
	return nil
}

func fresh(created, now time.Time, maxAge time.Duration) error {
	if created.After(now.Add(MaxAhead)) {
		return ErrFuture
	}
	if created.Before(now.Add(-maxAge)) {
		return ErrTooOld
	}
	return nil
}

// checkDigest recomputes the sha-256 member of a Content-Digest; digests of
// other algorithms beside it are ignored, as RFC 9530 §2 allows.
func checkDigest(field string, body []byte) error {
	if len(field) > maxField {
		return ErrMalformed
	}
	dict, err := httpsfv.UnmarshalDictionary([]string{field})
	if err != nil {
		return fmt.Errorf("reading Content-Digest: %w", ErrMalformed)
	}
	member, _ := dict.Get("sha-256")
	item, _ := member.(httpsfv.Item)
	stated, ok := item.Value.([]byte)
	sum := sha256.Sum256(body)
	if !ok || subtle.ConstantTimeCompare(stated, sum[:]) != 1 {
		return ErrDigest
	}
	return nil
}
