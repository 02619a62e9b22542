package admin

// The two logs share a tag so that one deployment reads them from one slot.

// peopleKey: stream of what people asked for.
func peopleKey() string { return "weir:{audit}:people" }

// shopKey: stream of the shop's own calls. They come once an order and must
// not push the people's entries out of a capped stream.
func shopKey() string { return "weir:{audit}:shop" }
