package archive

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	postgresConns  = 8
	postgresIdle   = time.Minute
	connectTimeout = 5 * time.Second // where the DSN says none
)

// connectPostgres reads the DSN; nothing is dialled yet. Writers of one sale
// queue on its row, so READ COMMITTED is enough and no statement is ever
// refused as not serializable, whatever the server's default.
func connectPostgres(dsn string, o options) (*DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the archive: %w", err) // pgx leaves the password out
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "weir"
	}
	db := sql.OpenDB(o.wrap(stdlib.GetConnector(*config)))
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	db.SetConnMaxIdleTime(postgresIdle)
	at := fmt.Sprintf("%s:%d", config.Host, config.Port)
	if strings.HasPrefix(config.Host, "/") {
		at = config.Host
	}
	d := dialect{
		place: "PostgreSQL at " + at + ", database " + config.Database, json: "JSONB", isolation: sql.LevelReadCommitted,
		lockRow: " FOR UPDATE", migrating: "SELECT pg_advisory_xact_lock(" + migrationLock + ")", numbered: "$",
	}
	return &DB{dialect: d, write: db, read: db, now: o.now, log: o.log}, nil
}

// migrationLock is any number that nothing else in the database locks.
const migrationLock = "8387229351"
