// Package pgtest starts a real PostgreSQL for tests: in a folder of its own, on
// a unix socket, gone with the test.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/childproc"
)

// ErrMissing: this machine has no PostgreSQL server.
var ErrMissing = errors.New("pgtest: no PostgreSQL server (Debian: apt-get install postgresql)")

const (
	superuser = "weir"
	patience  = 30 * time.Second
)

// Server is one PostgreSQL. Its methods are for one goroutine, but for DSN.
type Server struct {
	dir, bin string
	owner    owner
	process  *childproc.Process // nil while it is stopped
	named    atomic.Int64
}

// Start runs a server until the test ends. Where PostgreSQL is missing the test
// is skipped, or fails if required.
func Start(t testing.TB, required bool) *Server {
	t.Helper()
	s, err := Launch(t.Context())
	switch {
	case errors.Is(err, ErrMissing) && !required:
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Launch is Start for a TestMain; the caller must Close. ErrMissing.
func Launch(ctx context.Context) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	owner, err := findOwner()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weirpg") // short: a socket's path ends at 107 bytes
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, owner: owner}
	if err := s.init(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Run(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// find is the folder of the newest installed server.
func find() (string, error) {
	list, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		list = append(list, path)
	}
	if len(list) == 0 {
		return "", ErrMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	newest := slices.MaxFunc(list, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// init makes the data folder. Nothing is synced to the disk: the machine
// outlives the test.
func (s *Server) init(ctx context.Context) error {
	if err := s.owner.own(s.dir); err != nil {
		return err
	}
	cmd := s.owner.command(ctx, s.dir, filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// DSN names a database of the server; "" is the one that always exists.
func (s *Server) DSN(database string) string {
	if database == "" {
		database = "postgres"
	}
	q := url.Values{"host": {s.dir}, "user": {superuser}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + q.Encode()
}

// NewDatabase makes an empty database and returns its DSN.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.named.Add(1))
	s.Exec(t, "", "CREATE DATABASE "+name)
	return s.DSN(name)
}

// Exec runs a statement by psql, as a person would; its rows come back as text.
func (s *Server) Exec(t testing.TB, database, statement string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(s.bin, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
		"-c", statement, s.DSN(database)).CombinedOutput()
	if err != nil {
		t.Fatalf("psql %s: %v: %s", statement, err, out)
	}
	return string(out)
}

// Close stops the server and removes its folder.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}
