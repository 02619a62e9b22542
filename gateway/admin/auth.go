package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minSecret is the shortest secret of a token, in characters.
const minSecret = 16

// bearer is a Token as it is compared: its secret only as a hash.
type bearer struct {
	name string
	role string
	may  roles
	hash [sha256.Size]byte
}

// readTokens reports every fault; it never prints a secret.
func readTokens(tokens []Token) ([]bearer, error) {
	var faults []error
	known := make([]bearer, 0, len(tokens))
	for i, t := range tokens {
		b := bearer{name: t.Name, role: t.Role, may: roleOf(t.Role), hash: sha256.Sum256([]byte(t.Secret))}
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("token %d (%q): %s", i+1, t.Name, fmt.Sprintf(format, args...)))
		}
		if t.Name == "" || len(t.Name) > 64 || strings.ContainsFunc(t.Name, unprintable) {
			fault("name must be 1 to 64 printable bytes")
		}
		if b.may == nobody {
			fault("role %q is none of viewer, security, merchandiser, operator, shop", t.Role)
		}
		if utf8.RuneCountInString(t.Secret) < minSecret {
			fault("secret is shorter than %d characters", minSecret)
		}
		for _, other := range known {
			if other.name == b.name {
				fault("name is used twice")
			}
			if other.hash == b.hash {
				fault("secret is that of %q", other.name)
			}
		}
		known = append(known, b)
	}
	return known, errors.Join(faults...)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// identify finds the bearer of an Authorization header. It takes as long for a
// wrong token as for a right one: hashes of equal length are compared whole,
// and all of them.
func (c *Console) identify(header string) (bearer, bool) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return bearer{}, false
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	found := -1
	for i := range c.bearers {
		if subtle.ConstantTimeCompare(c.bearers[i].hash[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return bearer{}, false
	}
	return c.bearers[found], true
}
