package redisd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The files of a data folder; see the package comment.
const (
	lockFile   = "redis.lock"
	usersFile  = "redis.users"
	serverFile = "redis.server"
	stateFile  = "redis.json"
	socketFile = "redis.sock"
	logFile    = "redis.log"
)

// maxSocketPath is what fits into sockaddr_un with its closing zero byte, on the
// system with the smallest one (104 on the BSDs and macOS, 108 on Linux).
const maxSocketPath = 103

// folder is a data folder.
type folder struct {
	name string // as the operator spelled it, for messages
	path string // absolute, without symbolic links: what two processes compare
}

// state is what redis.json says.
type state struct {
	Folder string `json:"folder"` // a copied folder must not be taken for the original
	Holder int    `json:"holder"` // process id, for messages only
	endpoint
}

// openFolder makes the folder if it is missing and checks that we may use it.
func openFolder(name string) (*folder, error) {
	name = filepath.Clean(name)
	bad := func(err error) (*folder, error) {
		return nil, fmt.Errorf("the data folder %s cannot be used: %w", name, err)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return bad(err)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return bad(err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return bad(err)
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return bad(err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return bad(err)
	}
	return &folder{name: name, path: path}, nil
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// localEndpoint is where the folder's redis-server listens: in the folder, or, where that
// path is too long for a socket, in the user's runtime folder under a name made of the path.
func (f *folder) localEndpoint() endpoint {
	e := endpoint{Mode: ModeLocal, Network: "unix", Address: f.file(socketFile)}
	if st, err := f.readState(); err == nil && st.Mode == ModeLocal && isDir(filepath.Dir(st.Address)) {
		e.Address = st.Address // others may be connected there
		return e
	}
	if len(e.Address) <= maxSocketPath {
		return e
	}
	sum := sha256.Sum256([]byte(f.path))
	name := "redis-" + hex.EncodeToString(sum[:8]) + ".sock"
	if dir, err := runtimeDir(); err == nil && len(dir)+1+len(name) <= maxSocketPath {
		e.Address = filepath.Join(dir, name)
	} else if dir, err := privateDir(fallbackDir()); err == nil {
		e.Address = filepath.Join(dir, name)
	}
	return e
}

// serverLives tells whether a redis-server of this folder runs, answering or not. Two on one
// append-only file would ruin it, so the doubtful case counts as alive.
func (f *folder) serverLives(ctx context.Context, e endpoint) bool {
	if isTaken(f.file(serverFile)) {
		return true
	}
	h, _ := probe(ctx, e)
	return h != dead
}

// hasAppendOnly tells whether an earlier redis-server left its data here.
func (f *folder) hasAppendOnly() bool {
	entries, _ := os.ReadDir(f.file("appendonlydir"))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".aof") || strings.HasSuffix(e.Name(), ".rdb") {
			return true
		}
	}
	return false
}

// readState reads redis.json; an error if it is missing or belongs to another folder.
func (f *folder) readState() (state, error) {
	var st state
	b, err := os.ReadFile(f.file(stateFile))
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("reading %s: %w", stateFile, err)
	}
	if st.Folder != f.path {
		return st, fmt.Errorf("%s was made for the folder %s", stateFile, st.Folder)
	}
	return st, nil
}

func (f *folder) writeState(e endpoint) error {
	return writeJSON(f.file(stateFile), state{Folder: f.path, Holder: os.Getpid(), endpoint: e})
}

func (f *folder) removeState() { _ = os.Remove(f.file(stateFile)) }

// writeJSON replaces the file as one act; only its owner may read it, for it has a password.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	if _, err = tmp.Write(append(b, '\n')); err == nil {
		err = tmp.Close()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
