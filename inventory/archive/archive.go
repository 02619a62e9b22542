package archive

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/inventory"
)

var (
	// ErrUnknownScheme: a DSN that begins with neither sqlite: nor postgres://.
	ErrUnknownScheme = errors.New("archive: unknown scheme")
	// ErrNewerSchema: a newer weir wrote this archive; this one must not.
	ErrNewerSchema = errors.New("archive: made by a newer weir")
	// ErrLogin: PostgreSQL does not let this user in with this password.
	ErrLogin = errors.New("the login was refused")
)

// DB is an archive in SQL. All its methods may be called at once, from any
// number of processes. Errors of all of them: inventory.ErrArchiveUnavailable when
// nothing was stored for certain, inventory.ErrOutcomeUnknown when the commit
// was sent and no answer came; ask again, every act is idempotent.
type DB struct {
	dialect dialect
	write   *sql.DB // SQLite: one connection, so that writers queue here and not on the file's lock
	read    *sql.DB // PostgreSQL: the same as write
	now     func() time.Time
	log     *slog.Logger
}

// classAuthorization begins the codes of PostgreSQL for a refused login.
const classAuthorization = "28"

// Option changes how an archive is opened.
type Option func(*options)

type options struct {
	now  func() time.Time
	log  *slog.Logger
	wrap func(driver.Connector) driver.Connector // tests put faults between
}

// WithClock sets the clock that stamps archived_at; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithLog sets where contradictions between ledger and archive are reported;
// the default is nowhere.
func WithLog(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// Open opens the archive, makes or migrates its tables and proves that it can
// be written. The DSN is "sqlite:PATH", a file in a folder that exists, or
// "postgres://…" as libpq reads it. Opening twice, also at once from several
// processes, is fine. Errors: ErrUnknownScheme, ErrNewerSchema, ErrLogin,
// inventory.ErrArchiveUnavailable when the server does not answer.
func Open(ctx context.Context, dsn string, opts ...Option) (*DB, error) {
	o := options{now: time.Now, log: slog.New(slog.DiscardHandler), wrap: func(c driver.Connector) driver.Connector { return c }}
	for _, opt := range opts {
		opt(&o)
	}
	d, err := connect(dsn, o)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx); err != nil {
		if refused := new(pgconn.PgError); errors.As(err, &refused) && strings.HasPrefix(refused.Code, classAuthorization) {
			err = fmt.Errorf("%w: %w", ErrLogin, err)
		}
		return nil, errors.Join(fmt.Errorf("opening the archive %s: %w", d.dialect.place, err), d.Close())
	}
	return d, nil
}

func connect(dsn string, o options) (*DB, error) {
	scheme, _, _ := strings.Cut(dsn, ":")
	switch scheme {
	case "sqlite":
		return connectSQLite(dsn, o)
	case "postgres", "postgresql":
		return connectPostgres(dsn, o)
	}
	// The DSN itself may hold a password and is not shown.
	return nil, fmt.Errorf("%w %q: must be sqlite:PATH or postgres://…", ErrUnknownScheme, scheme)
}

// Close waits for what runs and closes all connections.
func (d *DB) Close() error {
	err := d.write.Close()
	if d.read != d.write {
		err = errors.Join(err, d.read.Close())
	}
	return err
}

// transaction runs act and commits. What act returns as one of the
// inventory's errors comes back as it is; any other means that nothing was stored.
func (d *DB) transaction(ctx context.Context, act func(tx *sql.Tx) error) error {
	tx, err := d.write.BeginTx(ctx, &sql.TxOptions{Isolation: d.dialect.isolation})
	if err != nil {
		return unavailable(err)
	}
	if err := act(tx); err != nil {
		// A rollback that fails has closed the connection, which rolls back too.
		_ = tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: commit: %w", inventory.ErrOutcomeUnknown, err)
	}
	return nil
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", inventory.ErrArchiveUnavailable, err)
}
