package inventory

import "strconv"

// bucket names one bucket of one generation of a sale. Tags, sale ids and
// numbers have no braces, so the hash tag is exactly tag, and all keys of a
// bucket share its slot.
type bucket struct {
	sale       string
	tag        string
	generation int64
}

func (b bucket) key(part string) string {
	return "weir:{" + b.tag + "}:" + b.sale + ":" + strconv.FormatInt(b.generation, 10) + ":" + part
}

func (b bucket) headKey() string     { return b.key("head") }
func (b bucket) ledgerKey() string   { return b.key("ledger") }
func (b bucket) buyersKey() string   { return b.key("buyers") }
func (b bucket) holdsKey() string    { return b.key("holds") }
func (b bucket) extendedKey() string { return b.key("extended") }
func (b bucket) attemptsKey() string { return b.key("attempts") }
func (b bucket) lentKey() string     { return b.key("lent") }
func (b bucket) acceptedKey() string { return b.key("accepted") }
func (b bucket) changesKey() string  { return b.key("changes") }

// keys are KEYS[1..9] of every bucket script, see lua/common.lua.
func (b bucket) keys() []string {
	return []string{
		b.headKey(), b.ledgerKey(), b.buyersKey(), b.holdsKey(), b.extendedKey(), b.attemptsKey(), b.lentKey(), b.acceptedKey(),
		b.changesKey(),
	}
}

// levelKeys are the KEYS of level.lua.
func (b bucket) levelKeys() []string {
	return []string{b.headKey(), b.ledgerKey(), b.holdsKey(), b.extendedKey()}
}

// The meta keys lie in one slot of their own.
func salesKey() string { return "weir:{sales}:records" }
func tagsKey() string  { return "weir:{sales}:tags" }
func leaseKey() string { return "weir:{sales}:preheat" }

// leasesKey holds who does which job of the background until when; replicasKey
// which replicas are alive.
func leasesKey() string   { return "weir:{sales}:leases" }
func replicasKey() string { return "weir:{sales}:replicas" }

// draftsKey: hash, sale id -> plan that waits for its preheat.
func draftsKey() string { return "weir:{sales}:drafts" }

// quotasKey: hash, sale id -> what is frozen of the shop's stock for it.
func quotasKey() string { return "weir:{sales}:quotas" }
