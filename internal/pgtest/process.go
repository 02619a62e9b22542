package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"weir/internal/childproc"
)

// Run starts the server and waits until it answers. It is for one that was
// stopped: its data are the same.
func (s *Server) Run(ctx context.Context) error {
	cmd := s.owner.command(context.WithoutCancel(ctx), s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60", "-c", "shared_buffers=16MB")
	// SIGQUIT stops it at once, with all its children.
	p, err := childproc.Start(cmd, filepath.Join(s.dir, "log"), syscall.SIGQUIT)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.process = p
	return s.await(ctx)
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if exec.CommandContext(ctx, filepath.Join(s.bin, "pg_isready"), "-q", "-h", s.dir, "-U", superuser).Run() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.process.Gone:
			return s.failed("ended at once")
		case <-ctx.Done():
			return s.failed("does not answer")
		}
	}
}

func (s *Server) failed(what string) error {
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("pgtest: the server %s: %s", what, log)
}

// Kill ends the server at once, in the middle of whatever it does. What was
// committed is there after the next Run.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-s.process.Gone:
	case <-time.After(patience):
		_ = s.process.Cmd.Process.Kill()
		<-s.process.Gone
	}
	s.process = nil
}
