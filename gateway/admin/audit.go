package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	auditKept    = 100_000 // entries kept in each of the two logs, about
	auditTimeout = 2 * time.Second
	auditPage    = 100 // entries listed when no limit is asked for
	auditMost    = 1000

	outcomeIntended = "intended" // about to be made; its end follows under the same request id
	outcomeDone     = "done"
)

// auditLog is two capped streams of AuditEntry.
type auditLog struct {
	redis redis.UniversalClient
	log   *slog.Logger
}

// write appends one entry. The program's log gets a copy, so that a lost Redis
// does not take the history along.
func (a auditLog) write(e AuditEntry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding audit entry: %w", err)
	}
	a.log.Info("audit", "who", e.Who, "role", e.Role, "action", e.Action, "target", e.Target,
		"reason", e.Reason, "outcome", e.Outcome, "request_id", e.RequestID)
	key := peopleKey()
	if e.Role == Shop {
		key = shopKey()
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	err = a.redis.XAdd(ctx, &redis.XAddArgs{
		Stream: key, MaxLen: auditKept, Approx: true, Values: []any{"entry", text},
	}).Err()
	if err != nil {
		return fmt.Errorf("writing audit entry: %w", err)
	}
	return nil
}

// last gives the newest entries of both logs, newest first.
func (a auditLog) last(ctx context.Context, limit int) ([]AuditEntry, error) {
	type stamped struct {
		ms, n int64
		entry AuditEntry
	}
	var all []stamped
	for _, key := range []string{peopleKey(), shopKey()} {
		messages, err := a.redis.XRevRangeN(ctx, key, "+", "-", int64(limit)).Result()
		if err != nil {
			return nil, fmt.Errorf("reading audit log: %w", err)
		}
		for _, m := range messages {
			ms, n, _ := strings.Cut(m.ID, "-")
			s := stamped{}
			s.ms, _ = strconv.ParseInt(ms, 10, 64)
			s.n, _ = strconv.ParseInt(n, 10, 64)
			text, _ := m.Values["entry"].(string)
			if err := json.Unmarshal([]byte(text), &s.entry); err != nil {
				return nil, fmt.Errorf("reading audit entry %s: %w", m.ID, err)
			}
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(x, y stamped) int { return cmp.Or(cmp.Compare(y.ms, x.ms), cmp.Compare(y.n, x.n)) })
	entries := make([]AuditEntry, 0, limit)
	for _, s := range all[:min(limit, len(all))] {
		entries = append(entries, s.entry)
	}
	return entries, nil
}

// listAudit answers GET /api/v1/audit.
func (c *Console) listAudit(cl *call) (any, error) {
	limit := auditPage
	if text := cl.query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > auditMost {
			return nil, badRequest("Parameter %q: value %q is not a number from 1 to %d.", "limit", shorten(text), auditMost)
		}
		limit = n
	}
	entries, err := c.audit.last(cl.ctx, limit)
	if err != nil {
		c.log.Warn("audit log cannot be read", "error", err, "request_id", cl.id)
		return nil, away("audit_unavailable", "The audit log cannot be read.")
	}
	return map[string]any{"entries": entries}, nil
}
