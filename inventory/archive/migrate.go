package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// migrations make the tables, in order; their count is the schema's version.
// One that was published is never changed, only followed by another. Times are
// Unix milliseconds, 0 = none. sealed is the state that a sale was left in when
// its keys were deleted. sold counts the units of confirmed rows; the
// database itself refuses to hold more than total.
func migrations() []string {
	return []string{`
CREATE TABLE sales (
	id          TEXT PRIMARY KEY,
	plan        JSON NOT NULL,
	version     BIGINT NOT NULL,
	total       BIGINT NOT NULL,
	sold        BIGINT NOT NULL DEFAULT 0,
	archived_at BIGINT NOT NULL,
	CHECK (sold >= 0 AND sold <= total)
);
CREATE TABLE reservations (
	id            TEXT PRIMARY KEY,
	sale          TEXT NOT NULL REFERENCES sales (id),
	item          TEXT NOT NULL,
	usr           TEXT NOT NULL,
	kind          TEXT NOT NULL,
	quantity      BIGINT NOT NULL,
	state         TEXT NOT NULL,
	reserved_at   BIGINT NOT NULL,
	expires_at    BIGINT NOT NULL,
	attempt       BIGINT NOT NULL,
	attempt_until BIGINT NOT NULL,
	shop_order    TEXT NOT NULL,
	stuck         BOOLEAN NOT NULL,
	in_payment    BOOLEAN NOT NULL,
	bucket        BIGINT NOT NULL,
	archived_at   BIGINT NOT NULL,
	CHECK (quantity >= 0)
);
CREATE INDEX reservations_by_sale ON reservations (sale, id);
CREATE INDEX reservations_by_user ON reservations (sale, usr);
CREATE INDEX reservations_by_order ON reservations (shop_order) WHERE shop_order <> ''`, `
ALTER TABLE sales ADD COLUMN sealed TEXT NOT NULL DEFAULT ''`,
	}
}

// migrate brings the schema to this program's version in one transaction, so
// that it happens once however many processes start at the same moment.
func (d *DB) migrate(ctx context.Context) error {
	if d.dialect.prepare != nil {
		if err := d.dialect.prepare(ctx, d.write); err != nil {
			return unavailable(err)
		}
	}
	return d.transaction(ctx, func(tx *sql.Tx) error {
		steps := migrations()
		have, err := d.schemaVersion(ctx, tx)
		switch {
		case err != nil:
			return unavailable(err)
		case have > len(steps):
			return fmt.Errorf("%w: its schema is version %d, this weir knows %d", ErrNewerSchema, have, len(steps))
		case have == len(steps):
			return nil
		}
		for _, step := range steps[have:] {
			for _, statement := range strings.Split(step, ";") {
				text := strings.Replace(statement, "JSON NOT NULL", d.dialect.json+" NOT NULL", 1)
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return unavailable(err)
				}
			}
		}
		_, err = tx.ExecContext(ctx, d.dialect.text("INSERT INTO archive_schema (version) VALUES ($1)"), len(steps))
		return unavailable(err)
	})
}

// schemaVersion is 0 in a new archive. A row is added for each version; the
// highest counts.
func (d *DB) schemaVersion(ctx context.Context, tx *sql.Tx) (int, error) {
	if d.dialect.migrating != "" {
		if _, err := tx.ExecContext(ctx, d.dialect.migrating); err != nil {
			return 0, err
		}
	}
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS archive_schema (version BIGINT PRIMARY KEY)"); err != nil {
		return 0, err
	}
	var version sql.NullInt64
	err := tx.QueryRowContext(ctx, "SELECT max(version) FROM archive_schema").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return int(version.Int64), err
}
