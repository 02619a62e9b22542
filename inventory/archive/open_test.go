package archive

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/inventory"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "such", "archive.db")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("this is no database, but a text of some length"), 0o600))
	for name, c := range map[string]struct {
		dsn  string
		is   error
		says string
	}{
		"unknown scheme":      {"mysql://user:secret@host/db", ErrUnknownScheme, "sqlite:PATH or postgres://"},
		"no scheme":           {"archive.db", ErrUnknownScheme, "sqlite:PATH or postgres://"},
		"no file":             {"sqlite:", nil, "needs the path of a file"},
		"memory":              {"sqlite::memory:", nil, "needs the path of a file"},
		"no folder":           {"sqlite:" + missing, nil, filepath.Dir(missing) + " does not exist"},
		"folder is a file":    {"sqlite:" + filepath.Join(file, "archive.db"), nil, "not a"},
		"not a database":      {"sqlite:" + file, inventory.ErrUnavailable, "not a database"},
		"postgres not a DSN":  {"postgres://user:secret@host:port/db", nil, "port"},
		"postgres not there":  {"postgres://user:secret@127.0.0.1:1/db", inventory.ErrUnavailable, "PostgreSQL at 127.0.0.1:1, database db"},
		"postgres, no socket": {"postgres:///db?host=/nonexistent", inventory.ErrUnavailable, "/nonexistent"},
	} {
		d, err := Open(t.Context(), c.dsn)
		switch {
		case err == nil:
			t.Errorf("%s: opened", name)
			d.Close()
		case c.is != nil && !errors.Is(err, c.is), !strings.Contains(err.Error(), c.says), strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAUserThatPostgreSQLDoesNotLetInIsSaidToBeOne(t *testing.T) {
	dsn, err := url.Parse(newPostgres(t))
	must(t, err)
	q := dsn.Query()
	q.Set("user", "nobody-knows-me")
	dsn.RawQuery = q.Encode()
	d, err := Open(t.Context(), dsn.String())
	if d != nil || !errors.Is(err, ErrLogin) || !errors.Is(err, inventory.ErrArchiveUnavailable) || !errors.Is(err, inventory.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestAnArchiveOfANewerWeirIsLeftAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		_, err := d.write.Exec(fmt.Sprintf("INSERT INTO archive_schema (version) VALUES (%d)", len(migrations())+1))
		must(t, err)
		_, err = Open(t.Context(), dsn)
		wantError(t, err, ErrNewerSchema)
	})
}

func TestWhatWasSavedIsThereAfterTheNextOpen(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		d, err := Open(t.Context(), dsn)
		must(t, err)
		save(t, d, plan(1), row(1, inventory.Confirmed, 1))
		must(t, d.Close())
		wantState(t, open(t, dsn), row(1, "", 0).ID, inventory.Confirmed)
		wantError(t, d.Save(t.Context(), plan(1), nil), inventory.ErrUnavailable) // closed
	})
}

func TestManyMayOpenANewArchiveAtOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				d, err := Open(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		var n, version int
		must(t, open(t, dsn).read.QueryRow("SELECT count(*), max(version) FROM archive_schema").Scan(&n, &version))
		if n != 1 || version != len(migrations()) {
			t.Fatalf("%d schema rows up to %d, want one, %d", n, version, len(migrations()))
		}
	})
}

func TestAnArchiveOfAnOlderWeirIsBroughtForward(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		save(t, d, plan(1), row(1, inventory.Confirmed, 1))
		for _, undo := range []string{"ALTER TABLE sales DROP COLUMN sealed", "DELETE FROM archive_schema", "INSERT INTO archive_schema (version) VALUES (1)"} {
			_, err := d.write.Exec(undo)
			must(t, err)
		}
		must(t, d.Close())
		d = open(t, dsn)
		wantState(t, d, row(1, "", 0).ID, inventory.Confirmed)
		if kept, err := d.Sale(t.Context(), "sale-1"); err != nil || kept.Left != "" || kept.Sold != 1 {
			t.Fatalf("%+v, %v", kept, err)
		}
	})
}

func TestASealedSaleStaysSealed(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		wantError(t, d.Seal(t.Context(), "sale-1", inventory.DesiredOn), inventory.ErrUnknownSale)
		save(t, d, plan(2), row(1, inventory.Confirmed, 1))
		for range 2 {
			must(t, d.Seal(t.Context(), "sale-1", inventory.DesiredCancelled))
			save(t, d, plan(2), row(2, inventory.Released, 1)) // a copy that comes late
			if kept, err := d.Sale(t.Context(), "sale-1"); err != nil || kept.Left != inventory.DesiredCancelled || kept.Sold != 1 {
				t.Fatalf("%+v, %v", kept, err)
			}
		}
	})
}

func TestASQLiteFileIsForItsOwnerAndItsPathMayHoldAnySign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "Ä archive?100%#&.db")
	save(t, open(t, "sqlite:"+path), plan(1))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Fatalf("mode %v, %d bytes", info.Mode(), info.Size())
	}
}
