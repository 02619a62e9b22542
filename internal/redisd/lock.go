package redisd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
)

// errTaken means that another open file has the lock.
var errTaken = errors.New("the lock is taken")

// fileLock is a flock. The kernel drops it when the last copy of its descriptor is closed,
// however the process ends.
type fileLock struct{ f *os.File }

// tryLock opens (or makes) the file and locks it, without waiting; errTaken if another has it.
func tryLock(path string, how int) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock file: %w", err)
	}
	l := &fileLock{f}
	if err := l.change(how); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// change turns a shared lock into an exclusive one, or back. The old one may be lost on failure.
func (l *fileLock) change(how int) error {
	for {
		err := syscall.Flock(int(l.f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errTaken
		default:
			return fmt.Errorf("locking %s (weir needs a file system with flock): %w", l.f.Name(), err)
		}
	}
}

// unlock may be called on nil.
func (l *fileLock) unlock() {
	if l != nil {
		_ = l.f.Close()
	}
}

// isTaken tells whether somebody holds the file exclusively. A file that is not there is free.
func isTaken(path string) bool { return refuses(path, shared) }

// isUsed tells whether somebody holds the file in any way. It is for those who hold the
// registry, because for an instant it takes away what a Start or Close might ask for.
func isUsed(path string) bool { return refuses(path, exclusive) }

func refuses(path string, how int) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is((&fileLock{f}).change(how), errTaken)
}
