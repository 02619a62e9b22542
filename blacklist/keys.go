package blacklist

// All keys share the tag {blacklist}, so that each script runs in one slot.

// metaKey: hash {seq, epoch}. The epoch is drawn with the first write; another
// one tells a replica that the list it knew is gone.
func metaKey() string { return "weir:{blacklist}:meta" }

// entriesKey: hash scope:value → seq:json, the truth.
func entriesKey() string { return "weir:{blacklist}:entries" }

// expiryKey: sorted set of scope:value by end in Unix ms, for the cleanup only.
func expiryKey() string { return "weir:{blacklist}:expiry" }

// changesKey: capped stream, one message a change, id = seq-0.
func changesKey() string { return "weir:{blacklist}:changes" }

// nudgeChannel carries the number of each new change.
func nudgeChannel() string { return "weir:{blacklist}:nudge" }

// fieldOf is an entry's name in the hashes; scopes hold no colon.
func fieldOf(scope Scope, value string) string { return string(scope) + ":" + value }
