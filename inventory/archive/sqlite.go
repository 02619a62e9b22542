package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
)

const (
	// busyTimeout is how long a writer waits for another process.
	busyTimeout = 5 * time.Second
	// sqliteBusy is SQLITE_BUSY, the lower byte of an error's code.
	sqliteBusy = 5
	// sqliteReaders beside the one writer.
	sqliteReaders = 4
)

// connectSQLite opens the file. A commit is on the disk when it returns
// (synchronous FULL), because Redis forgets what the archive has. Writers begin
// IMMEDIATE: a transaction that reads first and writes then would otherwise
// fail, not wait, when another process wrote between.
func connectSQLite(dsn string, o options) (*DB, error) {
	path := strings.TrimPrefix(dsn, "sqlite:")
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("opening the archive: %w", err)
	}
	open := func(lock string) (*sql.DB, error) {
		q := url.Values{
			"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)}, "_journal_mode": {"WAL"}, "_synchronous": {"FULL"},
			"_txlock": {lock}, "_dqs": {"0"},
		}
		// As a URI, so that a path may hold any sign.
		c, err := sqlite.NewConnector((&url.URL{Scheme: "file", Opaque: escapePath(path), RawQuery: q.Encode()}).String())
		if err != nil {
			return nil, fmt.Errorf("opening the archive %s: %w", path, err)
		}
		return sql.OpenDB(o.wrap(c)), nil
	}
	write, err := open("immediate")
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	read, err := open("deferred")
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(sqliteReaders)
	d := dialect{prepare: awaitWAL, place: path, json: "TEXT", isolation: sql.LevelDefault, numbered: "?"}
	return &DB{dialect: d, write: write, read: read, now: o.now, log: o.log}, nil
}

func escapePath(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

// makeFile makes the file, for its owner only: it names buyers. SQLite itself
// would say "out of memory" where a folder is missing.
func makeFile(path string) error {
	if path == "" || path == ":memory:" {
		return errors.New("sqlite: needs the path of a file")
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist: make it first", dir)
	} else if err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// awaitWAL makes the first connection. A new file turns to WAL then, once in
// its life; SQLite does not wait for a lock in that step, so we do.
func awaitWAL(ctx context.Context, write *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := write.PingContext(ctx)
		var locked *sqlite.Error
		if !errors.As(err, &locked) || locked.Code()&0xff != sqliteBusy {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
