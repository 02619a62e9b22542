package captcha

// All keys of one user share the hash tag {captcha:<tag>}, so that each script
// touches one slot. The tag is a keyed hash of the user and the first part of
// every challenge id of his, see id.go.

func key(tag, rest string) string { return "weir:{captcha:" + tag + "}:" + rest }

// recordKey holds one open challenge: a hash of answer (ASCII digits), picture,
// sound, proof, sale, item, device, order, expires.
func recordKey(tag, id string) string { return key(tag, "challenge:"+id) }

// verdictKey holds, for verdictTTL, the keyed hash of the answer that burned a
// challenge and what was said to it.
func verdictKey(tag, id string) string { return key(tag, "verdict:"+id) }

// liveKey is the list of the user's open challenges, newest first.
func liveKey(tag string) string { return key(tag, "live") }

// issuedKey counts the challenges issued to the user within one TTL.
func issuedKey(tag string) string { return key(tag, "issued") }

// passesKey is a hash sale → "<expires ms>:<order id>" of the user's live passes.
func passesKey(tag string) string { return key(tag, "passes") }

// RecordKey is the Redis key of an open challenge, for who has Redis and wants
// to look: the test kit and the operator. ErrUnknown for what is no id.
func RecordKey(id string) (string, error) {
	p, ok := splitID(id)
	if !ok {
		return "", ErrUnknown
	}
	return recordKey(p.tag(), id), nil
}
