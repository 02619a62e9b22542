package captcha

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxAnswer is how many bytes of what a buyer typed are looked at.
const maxAnswer = 256

// normalise turns what people type into what was drawn: NFKC, no spaces and no
// invisible marks, digits of any script as ASCII. The rest stays and is wrong.
func normalise(typed string) string {
	if len(typed) > maxAnswer {
		typed = typed[:maxAnswer]
	}
	var b strings.Builder
	for _, r := range norm.NFKC.String(typed) {
		switch {
		case unicode.IsSpace(r), unicode.Is(unicode.Cf, r):
		case unicode.Is(unicode.Nd, r):
			b.WriteByte('0' + digit(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// digit is the value of a decimal digit. Unicode keeps those in runs of ten that
// begin with zero.
func digit(r rune) byte {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10)
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10)
		}
	}
	return 0
}

// ascii and values turn the digits 0 to 9 into '0' to '9' and back. values
// refuses anything else, which the drawing code would not survive.
func ascii(values []byte) string {
	out := make([]byte, len(values))
	for i, v := range values {
		out[i] = '0' + v
	}
	return string(out)
}

func values(ascii string) ([]byte, bool) {
	out := make([]byte, len(ascii))
	for i := range ascii {
		if ascii[i] < '0' || ascii[i] > '9' {
			return nil, false
		}
		out[i] = ascii[i] - '0'
	}
	return out, len(out) > 0
}
