package redisd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// errEnded means that a redis-server died before it answered.
var errEnded = errors.New("redis-server ended at once")

// serverLockFD is the descriptor with which redis-server holds redis.server.
const serverLockFD = 3

// child is a redis-server that this process started; 0 is none. It is not waited for by a
// goroutine, because it may outlive us on purpose; reap collects it when it is gone.
type child int

// reap collects the exit status if the child has ended, so that no zombie stays.
func (c *child) reap() {
	if *c == 0 {
		return
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(int(*c), &status, syscall.WNOHANG, nil); pid == int(*c) || err == syscall.ECHILD {
		*c = 0
	}
}

// kill ends a child that has not been reaped; its process id cannot have been reused.
func (c *child) kill() {
	if *c == 0 {
		return
	}
	_ = syscall.Kill(int(*c), syscall.SIGKILL)
	_, _ = syscall.Wait4(int(*c), nil, 0, nil)
	*c = 0
}

// findBinary returns the redis-server to start, or an error that says how to get one.
func findBinary(configured string) (string, error) {
	if configured != "" {
		path, err := exec.LookPath(configured)
		if err != nil {
			return "", fmt.Errorf("the configured redis-server cannot be run: %w", err)
		}
		return filepath.Abs(path)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("no redis-server was found on PATH (Debian: apt-get install redis-server)")
	}
	return filepath.Abs(path)
}

// startLocal starts a redis-server on the folder and waits until it serves.
func (s *Server) startLocal(ctx context.Context, e endpoint) error {
	s.at = e
	from := fileSize(s.folder.file(logFile))
	if err := s.spawn(); err != nil {
		return err
	}
	if err := s.folder.writeState(e); err != nil {
		return s.giveUp(err)
	}
	if err := s.awaitReady(ctx, from); err != nil {
		return err
	}
	if err := s.describe(ctx); err != nil {
		return s.giveUp(err)
	}
	return nil
}

// giveUp ends the server that we have just started and that nobody else can have used.
func (s *Server) giveUp(err error) error {
	s.child.kill()
	return err
}

// adopt takes over a redis-server whose holder died; errEnded if there is none any more.
func (s *Server) adopt(ctx context.Context, e endpoint) error {
	s.at = e
	from := fileSize(s.folder.file(logFile))
	if err := s.endUnreachable(ctx); err != nil {
		return err
	}
	if err := s.awaitReady(ctx, from); err != nil {
		return err
	}
	if err := s.describe(ctx); err != nil {
		return err
	}
	s.log.Info("redis: adopted the redis-server of an earlier process", "folder", s.folder.name)
	return s.folder.writeState(e)
}

// spawn runs redis-server in a session of its own, so that Ctrl-C of the gateway does not
// end it before the gateway has drained, and with the lock on redis.server in its hands.
func (s *Server) spawn() error {
	alive, err := s.lockServer()
	if err != nil {
		return fmt.Errorf("a redis-server still runs on %s: %w", s.folder.name, err)
	}
	defer alive.unlock() // ours only; the child has its copy
	if pids := s.folder.servers(); len(pids) > 0 {
		return fmt.Errorf("a redis-server still runs on %s, though the file of its lock is gone (%s)", s.folder.name, s.folder.howToEnd())
	}
	log, err := os.OpenFile(s.folder.file(logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of redis-server: %w", err)
	}
	defer log.Close()
	_ = os.Remove(s.at.Address) // a stale socket; nobody listens, we have just seen that
	cmd := exec.Command(s.binary, serverArgs(s.folder.path, s.at.Address)...)
	cmd.Dir = s.folder.path
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{alive.f} // becomes serverLockFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	s.child = child(cmd.Process.Pid)
	return cmd.Process.Release()
}

// lockServer takes redis.server. It is patient for a moment, because whoever looks whether the
// file is locked locks it for that instant.
func (s *Server) lockServer() (*fileLock, error) {
	for range 10 {
		l, err := tryLock(s.folder.file(serverFile), exclusive)
		if !errors.Is(err, errTaken) {
			return l, err
		}
		pause(context.Background(), pollEvery)
	}
	return nil, errTaken
}

// serverArgs keep every acknowledged write (appendfsync always), never evict, and open no port.
func serverArgs(dir, socket string) []string {
	return []string{
		"--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--dir", dir, "--daemonize", "no", "--logfile", "",
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
		"--maxmemory-policy", "noeviction",
	}
}

// awaitReady waits until the server answers. from is the size that the log had before it
// was started: what comes after is its last words.
func (s *Server) awaitReady(ctx context.Context, from int64) error {
	busy := false
	for {
		h, err := probe(ctx, s.at)
		if h == ready {
			return nil
		}
		busy = busy || h == loading
		s.child.reap()
		if h == dead && !isTaken(s.folder.file(serverFile)) {
			return fmt.Errorf("%w: %s (%s)", errEnded, lastWords(s.folder.file(logFile), from), s.binary)
		}
		if pause(ctx, pollEvery) {
			continue
		}
		if busy {
			// It is left alone: the next start adopts it, further along.
			return fmt.Errorf("redis-server is still busy with the data in %s (%w); start again in a moment", s.folder.name, err)
		}
		s.child.kill()
		return fmt.Errorf("redis-server of %s runs but does not answer in time (%w); see %s", s.folder.name, err, filepath.Join(s.folder.name, logFile))
	}
}

func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// lastWords returns the last line of the log, of at most its last 4 KiB.
func lastWords(path string, from int64) string {
	const limit = 4 << 10
	none := "it said nothing"
	f, err := os.Open(path)
	if err != nil {
		return none
	}
	defer f.Close()
	from = max(from, fileSize(path)-limit)
	b, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return none
	}
	lines := strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return none
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
