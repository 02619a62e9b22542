package redisd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// registry knows, for all embedded Redis of this OS user, which holds the stock of which sale.
// It is one file per sale in the user's runtime folder, which is gone after a reboot just as
// every Redis is. It is locked as long as a start or a Close lasts, so these are one at a time.
type registry struct {
	dir  string
	lock *fileLock
}

// claim is one file of the registry.
type claim struct {
	Sale   string `json:"sale"`
	Folder string `json:"folder"`
	endpoint
}

// openRegistry finds and locks the registry.
func openRegistry(ctx context.Context) (*registry, error) {
	dir, err := runtimeDir()
	if err != nil {
		return nil, err
	}
	for {
		lock, err := tryLock(filepath.Join(dir, "registry.lock"), exclusive)
		if err == nil {
			return &registry{dir: dir, lock: lock}, nil
		}
		if !errors.Is(err, errTaken) {
			return nil, err
		}
		if !pause(ctx, pollEvery) {
			return nil, errors.New("another weir of this user is starting or stopping and takes long; try again in a moment")
		}
	}
}

func (r *registry) unlock() { r.lock.unlock() }

// refuse returns an error if a sale's stock lies in a living Redis of another folder, or in
// the files of one that was killed.
func (r *registry) refuse(ctx context.Context, folder string, sales []string) error {
	for _, sale := range sales {
		c, err := r.read(sale)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if c.Folder == folder {
			continue
		}
		if c.lives(ctx) {
			return fmt.Errorf("the stock of sale %q is already held by the Redis of the data folder %s, and a second stock would sell its units twice; %s", sale, c.Folder, c.advice())
		}
		if c.abandoned() {
			return fmt.Errorf("the stock of sale %q was left in the data folder %s by a weir that was killed, and a second stock would sell its units twice; go on with it by --data %s, or give it up by removing that folder", sale, c.Folder, c.Folder)
		}
	}
	return nil
}

// advice names what works, without the password of a memory Redis, which is no address for others.
func (c claim) advice() string {
	if c.Mode == ModeMemory {
		return fmt.Sprintf("share it with --data %s", c.Folder)
	}
	return fmt.Sprintf("share it with --data %s, or keep your own folder and use its Redis with --redis unix:%s", c.Folder, c.Address)
}

// lives tells whether the stock of the claim is alive. For a redis-server the locks are asked
// first: it may live without its socket file, and it comes back while a process uses the folder.
// A memory Redis is dead if its port is; if it does not answer, the lock of its holder counts.
func (c claim) lives(ctx context.Context) bool {
	f := &folder{name: c.Folder, path: c.Folder}
	if c.Mode != ModeMemory {
		return isUsed(f.file(usersFile)) || f.serverLives(ctx, c.endpoint)
	}
	switch h, _ := probe(ctx, c.endpoint); h {
	case ready, loading:
		return true
	case dead:
		return false
	}
	return isTaken(f.file(lockFile))
}

// abandoned tells whether the stock lies on disk though nobody holds it: its last user was
// killed, for a Close removes the claim.
func (c claim) abandoned() bool {
	f := &folder{name: c.Folder, path: c.Folder}
	return c.Mode != ModeMemory && f.hasAppendOnly()
}

// record writes the claims of a Redis that is up.
func (r *registry) record(folder string, sales []string, e endpoint) error {
	for _, sale := range sales {
		if err := writeJSON(r.file(sale), claim{Sale: sale, Folder: folder, endpoint: e}); err != nil {
			return err
		}
	}
	return nil
}

// clear removes every claim of the folder, also those of processes that ended before.
func (r *registry) clear(folder string) {
	files, _ := filepath.Glob(filepath.Join(r.dir, "stock-*.json"))
	for _, file := range files {
		if c, err := readClaim(file); err == nil && c.Folder == folder {
			_ = os.Remove(file)
		}
	}
}

func (r *registry) read(sale string) (claim, error) { return readClaim(r.file(sale)) }

func (r *registry) file(sale string) string {
	return filepath.Join(r.dir, "stock-"+url.PathEscape(sale)+".json")
}

func readClaim(file string) (claim, error) {
	var c claim
	b, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("reading %s (remove it if no weir runs): %w", file, err)
	}
	return c, nil
}

// runtimeDir is the folder of this user that all of the user's processes on this host agree
// on. The environment is read here, and not in cmd/, because it says where this host keeps
// such things and is no setting of weir. A session without XDG_RUNTIME_DIR (cron) looks at the
// place where the others have theirs.
func runtimeDir() (string, error) {
	uid := strconv.Itoa(os.Getuid())
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", uid)} {
		if base == "" || owned(base) != nil {
			continue // after su, the variable may still name the folder of another user
		}
		if dir, err := privateDir(filepath.Join(base, "weir")); err == nil {
			return dir, nil
		}
	}
	return privateDir(fallbackDir())
}

func fallbackDir() string {
	return filepath.Join(os.TempDir(), "weir-"+strconv.Itoa(os.Getuid()))
}

// privateDir makes the folder, and refuses one that others could have prepared for us.
func privateDir(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("making the runtime folder: %w", err)
	}
	if err := owned(dir); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("protecting the runtime folder: %w", err)
	}
	return dir, nil
}

// owned checks that path is a folder, not a link to one, and ours.
func owned(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("the runtime folder %s is no folder", path)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
		return fmt.Errorf("the runtime folder %s belongs to another user", path)
	}
	return nil
}
