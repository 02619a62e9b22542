package admin

import (
	"context"
	"net/http"
	"time"

	"weir/blacklist"
)

// bansMost bounds one listing; total tells how many there are.
const bansMost = 10_000

// ban is an entry as the API shows it: until is null when permanent.
type ban struct {
	Scope   blacklist.Scope `json:"scope"`
	Value   string          `json:"value"`
	Reason  string          `json:"reason"`
	Author  string          `json:"author"`
	Origin  string          `json:"origin"`
	Created time.Time       `json:"created"`
	Until   *time.Time      `json:"until"`
	Seq     int64           `json:"seq"`
}

func showBan(e blacklist.Entry) ban {
	b := ban{Scope: e.Scope, Value: e.Value, Reason: e.Reason, Author: e.Author, Origin: e.Origin,
		Created: e.Created, Seq: e.Seq}
	if !e.Until.IsZero() {
		b.Until = &e.Until
	}
	return b
}

func showBans(entries []blacklist.Entry) []ban {
	all := make([]ban, 0, len(entries))
	for _, e := range entries {
		all = append(all, showBan(e))
	}
	return all
}

// listBans answers GET /api/v1/bans, whole or filtered by scope and value.
func (c *Console) listBans(cl *call) (any, error) {
	scope, value := blacklist.Scope(cl.query("scope")), cl.query("value")
	entries, total := []blacklist.Entry{}, 0
	if value != "" && scope == "" {
		return nil, badRequest("Parameter %q: value %q needs a scope beside it.", "value", shorten(value))
	}
	if value != "" {
		canonical, err := blacklist.Canonical(scope, value)
		if err != nil {
			return nil, err
		}
		value = canonical
	}
	for _, e := range c.bans.Entries() {
		if scope != "" && e.Scope != scope || value != "" && e.Value != value {
			continue
		}
		if total++; total <= bansMost {
			entries = append(entries, e)
		}
	}
	return map[string]any{"bans": showBans(entries), "total": total}, nil
}

// explain answers GET /api/v1/explain.
func (c *Console) explain(cl *call) (any, error) {
	entries, err := c.bans.Explain(blacklist.Scope(cl.query("scope")), cl.query("value"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"banned": len(entries) > 0, "entries": showBans(entries)}, nil
}

// addBan answers POST /api/v1/bans.
func (c *Console) addBan(cl *call) (act, error) {
	e := blacklist.Entry{Author: cl.who.name, Origin: "api"}
	var scope, length, until string
	var permanent bool
	err := cl.body(fields{"scope": &scope, "value": &e.Value, "reason": &e.Reason,
		"for": &length, "until": &until, "permanent": &permanent})
	cl.target = shorten(scope + ":" + e.Value)
	if err != nil {
		return nil, err
	}
	if err := note("reason", e.Reason); err != nil {
		return nil, err
	}
	cl.reason = e.Reason
	e.Scope = blacklist.Scope(scope)
	if e.Value, err = blacklist.Canonical(e.Scope, e.Value); err != nil {
		return nil, err
	}
	cl.target = string(e.Scope) + ":" + e.Value
	if e.Until, err = c.endOf(length, until, permanent); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		added, err := c.bans.Add(ctx, e)
		if err != nil {
			return nil, err
		}
		return showBan(added), nil
	}, nil
}

// endOf reads the three ways to say how long; exactly one must be used, so
// that no ban is permanent by omission.
func (c *Console) endOf(length, until string, permanent bool) (time.Time, error) {
	ways := 0
	for _, used := range []bool{length != "", until != "", permanent} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return time.Time{}, invalidBan(`Exactly one of "for" (value %q), "until" (value %q) and "permanent" (value %t) must be given.`,
			shorten(length), shorten(until), permanent)
	}
	now := c.now()
	switch {
	case length != "":
		d, err := parseDuration(length)
		if err != nil {
			return time.Time{}, invalidBan(`Field "for": value %s.`, err)
		}
		return now.Add(d), nil
	case until != "":
		t, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return time.Time{}, invalidBan(`Field "until": value %q is not an RFC 3339 time with offset such as 2030-01-02T15:04:05Z.`, shorten(until))
		}
		if d := t.Sub(now); d < shortest || d > longest {
			return time.Time{}, invalidBan(`Field "until": value %q is not between one second and ten years from now.`, until)
		}
		return t, nil
	}
	return time.Time{}, nil
}

func invalidBan(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "invalid_entry", format, args...)
}

// removeBan answers DELETE /api/v1/bans.
func (c *Console) removeBan(cl *call) (act, error) {
	scope, value := blacklist.Scope(cl.query("scope")), cl.query("value")
	cl.target = shorten(string(scope) + ":" + value)
	reason := cl.query("reason")
	if err := note("reason", reason); err != nil {
		return nil, err
	}
	cl.reason = reason
	value, err := blacklist.Canonical(scope, value)
	if err != nil {
		return nil, err
	}
	cl.target = string(scope) + ":" + value
	return func(ctx context.Context) (any, error) {
		gone, found, err := c.bans.Remove(ctx, scope, value)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, refuse(http.StatusNotFound, "not_found", "There is no ban of %s %q.", scope, value)
		}
		return map[string]any{"removed": true, "ban": showBan(gone)}, nil
	}, nil
}
