package captcha

// What the tests of the outside may see.
var (
	NormaliseForTest = normalise
	DigitForTest     = digit
)

// KeysForTest are the keys of user, without those of single challenges.
func (i *Issuer) KeysForTest(user string) (live, issued, passes string) {
	tag := i.userTag(user)
	return liveKey(tag), issuedKey(tag), passesKey(tag)
}

// SignForTest signs any pass.
func (i *Issuer) SignForTest(p Pass) string { return i.sign(p) }
