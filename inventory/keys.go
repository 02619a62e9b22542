package inventory

import "strconv"

// bucket names one bucket of one generation of a sale. Sale ids have no braces,
// so the hash tag is always exactly "sale:index" and all keys share its slot.
type bucket struct {
	sale       string
	index      int
	generation int64
}

func (b bucket) key(part string) string {
	return "weir:{" + b.sale + ":" + strconv.Itoa(b.index) + "}:" + strconv.FormatInt(b.generation, 10) + ":" + part
}

func (b bucket) headKey() string     { return b.key("head") }
func (b bucket) ledgerKey() string   { return b.key("ledger") }
func (b bucket) buyersKey() string   { return b.key("buyers") }
func (b bucket) holdsKey() string    { return b.key("holds") }
func (b bucket) attemptsKey() string { return b.key("attempts") }

// keys are KEYS[1..5] of every bucket script, see lua/common.lua.
func (b bucket) keys() []string {
	return []string{b.headKey(), b.ledgerKey(), b.buyersKey(), b.holdsKey(), b.attemptsKey()}
}

// The meta keys lie in one slot of their own.
func salesKey() string { return "weir:{sales}:records" }
func tagsKey() string  { return "weir:{sales}:tags" }
func leaseKey() string { return "weir:{sales}:preheat" }
