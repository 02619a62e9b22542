package sampleshop

// All keys share one hash tag: a script touches several of them, so they must
// lie in one slot of a cluster.
const tag = "weir:sample:{shop}:"

// ordersKey is a hash: order id → order as JSON.
func ordersKey() string { return tag + "orders" }

// outcomesKey is a hash: idempotency key → "order <id>" or "refused <status>".
func outcomesKey() string { return tag + "outcomes" }

// saleKey is a list: ids of the orders of a sale, the oldest first.
func saleKey(sale string) string { return tag + "sale:" + sale }

// statesKey is a hash: order id → "paid" or "cancelled"; none is "placed".
func statesKey() string { return tag + "states" }

// stockKey is a hash: item → units of its product stock that are not set aside.
func stockKey() string { return tag + "stock" }

// quotasKey is a hash: sale → what is set aside for it, see lua/quota.lua.
func quotasKey() string { return tag + "quotas" }

// masterKey is a string: the made-up master secret of a first look.
func masterKey() string { return tag + "secret" }
