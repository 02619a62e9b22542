package sampleshop

// All keys share one hash tag: a script touches both hashes, so they must lie
// in one slot of a cluster.
const tag = "weir:sample:{shop}:"

// ordersKey is a hash: order id → order as JSON.
func ordersKey() string { return tag + "orders" }

// outcomesKey is a hash: idempotency key → "order <id>" or "refused <status>".
func outcomesKey() string { return tag + "outcomes" }

// masterKey is a string: the made-up master secret of a first look.
func masterKey() string { return tag + "secret" }
