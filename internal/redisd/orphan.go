package redisd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// lostAfter is how long nobody may listen at the address of a running redis-server that
	// did so before. It never stops on its own, except on its way out.
	lostAfter = 300 * time.Millisecond
	// bornWithin is how long a redis-server that we have just started may take to listen.
	bornWithin = startLimit
	// adoptAfter is the same for one that another process started, perhaps a moment ago.
	adoptAfter = time.Second
	// askAgainAfter repeats a SIGTERM. Redis does not obey while it writes its first
	// append-only file, and a second one does no harm.
	askAgainAfter = time.Second
)

// absence measures for how long nobody has listened at the address of a redis-server.
type absence struct {
	since time.Time // zero while somebody listens
	limit time.Duration
}

// over takes the error of a probe and tells whether nobody has listened for longer than allowed.
func (a *absence) over(why error) bool {
	if !nobodyListens(why) {
		*a = absence{limit: lostAfter}
		return false
	}
	if a.since.IsZero() {
		a.since = time.Now()
	}
	return time.Since(a.since) >= a.limit
}

// runs tells whether a redis-server of the folder runs, whether it can be reached or not.
func (s *Server) runs() bool {
	s.child.reap()
	return s.child != 0 || isTaken(s.folder.file(serverFile))
}

// endUnreachable ends a redis-server that runs but that nobody can connect to, because its
// socket file is gone (or another's): a cleaner of temporary files does that. It returns nil
// at once if the server is reachable or gone by itself, or takes only its time.
func (s *Server) endUnreachable(ctx context.Context) error {
	lost := absence{limit: adoptAfter}
	for s.runs() || len(s.folder.servers()) > 0 {
		_, why := probe(ctx, s.at)
		if !nobodyListens(why) {
			return nil
		}
		if lost.over(why) {
			return s.replace(ctx)
		}
		if !pause(ctx, pollEvery) {
			return nil
		}
	}
	return nil
}

// replace ends an unreachable redis-server, so that another can be started on its data. It
// refuses if that would lose the data or the Redis.
func (s *Server) replace(ctx context.Context) error {
	if s.binary == "" {
		return fmt.Errorf("the socket %s of the redis-server in %s is gone, and no redis-server was found to start again; install it (Debian: apt-get install redis-server)", s.at.Address, s.folder.name)
	}
	if err := s.folder.appendOnlyWhole(); err != nil {
		return fmt.Errorf("the data folder %s was emptied under its redis-server (%w): its socket is gone too, so that its stock cannot be saved; end it (%s), then put a backup of the folder back or begin anew in another with --data", s.folder.name, err, s.folder.howToEnd())
	}
	s.log.Warn("redis: the socket of redis-server is gone, ending it to start it again on its data", "folder", s.folder.name, "socket", s.at.Address)
	return s.terminate(ctx)
}

// terminate ends the folder's redis-server by signal and waits until it has ended. On SIGTERM
// redis-server flushes the append-only file and exits, as on SHUTDOWN.
func (s *Server) terminate(ctx context.Context) error {
	began, asked := time.Now(), time.Time{}
	for {
		pids := s.folder.servers()
		if !s.runs() && len(pids) == 0 {
			return nil
		}
		if time.Since(asked) >= askAgainAfter {
			if s.signal(pids) {
				asked = time.Now()
			} else if time.Since(began) >= askAgainAfter { // not just about to be gone
				return fmt.Errorf("a redis-server runs on %s and its socket %s is gone; end it (%s) and start again", s.folder.name, s.at.Address, s.folder.howToEnd())
			}
		}
		if !pause(ctx, pollEvery) {
			return fmt.Errorf("redis-server of %s does not end on SIGTERM (%s)", s.folder.name, s.folder.howToEnd())
		}
	}
}

// signal sends SIGTERM to our child, which cannot be another process until it is reaped, and
// to pids if they are still redis-servers of the folder. It tells whether it sent one.
func (s *Server) signal(pids []int) bool {
	sent := s.child != 0 && syscall.Kill(int(s.child), syscall.SIGTERM) == nil
	for _, pid := range pids {
		p, err := os.FindProcess(pid) // a handle of the process, not of its number, where the system has them
		if err != nil {
			continue
		}
		if s.folder.isServer(pid) && p.Signal(syscall.SIGTERM) == nil {
			sent = true
		}
		_ = p.Release()
	}
	return sent
}

// flockToWrite is the line that /proc/PID/fdinfo has for an exclusive flock.
var flockToWrite = regexp.MustCompile(`(?m)^lock:.*\bFLOCK\b.*\bWRITE\b`)

// servers finds the processes of the folder's redis-server without its help: they work in the
// folder and hold its lock. It needs no record, which could be stale or gone with the socket.
// It finds none on a system without /proc.
func (f *folder) servers() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && f.isServer(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isServer looks for the lock file by its name, because it counts as well if it was removed,
// and for a lock to write: a process that only looks whether it is free has one to read.
func (f *folder) isServer(pid int) bool {
	proc, fd := filepath.Join("/proc", strconv.Itoa(pid)), strconv.Itoa(serverLockFD)
	name, err := os.Readlink(filepath.Join(proc, "fd", fd))
	if err != nil || strings.TrimSuffix(filepath.Base(name), " (deleted)") != serverFile {
		return false
	}
	info, err := os.ReadFile(filepath.Join(proc, "fdinfo", fd))
	if err != nil || !flockToWrite.Match(info) {
		return false
	}
	cwd, err := os.Stat(filepath.Join(proc, "cwd"))
	if err != nil {
		return false
	}
	here, err := os.Stat(f.path)
	return err == nil && os.SameFile(cwd, here)
}

// howToEnd is advice for the operator.
func (f *folder) howToEnd() string {
	pids := f.servers()
	if len(pids) == 0 {
		return "the process that holds " + filepath.Join(f.name, serverFile) + " open"
	}
	words := []string{"kill"}
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return strings.Join(words, " ")
}

// appendOnlyWhole checks that a redis-server started now would find all files of its data.
func (f *folder) appendOnlyWhole() error {
	manifests, _ := filepath.Glob(filepath.Join(f.file("appendonlydir"), "*.manifest"))
	if len(manifests) == 0 {
		return errors.New("the append-only file is gone")
	}
	b, err := os.ReadFile(manifests[0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		// file appendonly.aof.1.incr.aof seq 1 type i; type h is one that may be deleted.
		w := strings.Fields(line)
		if len(w) < 6 || w[0] != "file" || w[5] == "h" {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(manifests[0]), w[1])); err != nil {
			return err
		}
	}
	return nil
}
