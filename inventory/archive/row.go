package archive

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"weir/inventory"
)

const columns = "id, sale, item, usr, kind, quantity, state, reserved_at, expires_at, attempt, attempt_until, shop_order, stuck, in_payment, bucket"

// width is the number of columns that are written: those above and archived_at.
const width = 16

func values(r inventory.Reservation, archivedAt int64) []any {
	return []any{
		r.ID, r.Sale, r.Item, toText(r.User), r.Kind, r.Quantity, string(r.State), toMillis(r.ReservedAt), toMillis(r.ExpiresAt),
		int64(r.Attempt), toMillis(r.AttemptUntil), toText(r.ShopOrder), r.Stuck, r.InPayment, int64(r.Bucket), archivedAt,
	}
}

// upsert writes n rows in one statement, so that a slice costs one trip.
func upsert(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO reservations (" + columns + ", archived_at) VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + parameters(i*width+1, width) + ")")
	}
	b.WriteString(` ON CONFLICT (id) DO UPDATE SET state = excluded.state, reserved_at = excluded.reserved_at,
		expires_at = excluded.expires_at, attempt = excluded.attempt, attempt_until = excluded.attempt_until,
		shop_order = excluded.shop_order, stuck = excluded.stuck, in_payment = excluded.in_payment, bucket = excluded.bucket, archived_at = excluded.archived_at`)
	return b.String()
}

// parameters is "$from, $from+1, …", n of them.
func parameters(from, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", from+i)
	}
	return b.String()
}

type scanner interface{ Scan(...any) error }

func scanRow(s scanner) (inventory.Reservation, error) {
	var r inventory.Reservation
	var user, shopOrder, state string
	var reserved, expires, until, attempt int64
	err := s.Scan(&r.ID, &r.Sale, &r.Item, &user, &r.Kind, &r.Quantity, &state, &reserved, &expires, &attempt, &until, &shopOrder, &r.Stuck, &r.InPayment, &r.Bucket)
	r.User, r.ShopOrder, r.State = fromText(user), fromText(shopOrder), inventory.State(state)
	r.ReservedAt, r.ExpiresAt, r.AttemptUntil, r.Attempt = fromMillis(reserved), fromMillis(expires), fromMillis(until), int(attempt)
	return r, err
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// list reads the rows behind "SELECT … FROM reservations"; at most one slice.
func (d *DB) list(ctx context.Context, q querier, where string, args ...any) ([]inventory.Reservation, error) {
	rows, err := q.QueryContext(ctx, d.dialect.text("SELECT "+columns+" FROM reservations "+where), args...)
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	var list []inventory.Reservation
	for rows.Next() {
		r, err := scanRow(rows)
		if err != nil {
			return nil, unavailable(err)
		}
		list = append(list, r)
	}
	return list, unavailable(rows.Err())
}

// normal is the reservation as it comes back from the archive.
func normal(r inventory.Reservation) inventory.Reservation {
	for _, t := range []*time.Time{&r.ReservedAt, &r.ExpiresAt, &r.AttemptUntil} {
		*t = fromMillis(toMillis(*t))
	}
	return r
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// hexMark begins a text that is stored as hexadecimal digits.
const hexMark = `\x`

// toText stores any bytes: buyers and shops name themselves, and one text that
// PostgreSQL refuses (a zero byte, no UTF-8) would keep its whole slice out.
func toText(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") && !strings.HasPrefix(s, hexMark) {
		return s
	}
	return hexMark + hex.EncodeToString([]byte(s))
}

func fromText(s string) string {
	if raw, ok := strings.CutPrefix(s, hexMark); ok {
		if b, err := hex.DecodeString(raw); err == nil {
			return string(b)
		}
	}
	return s
}
