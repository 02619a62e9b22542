package redistest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"weir/internal/childproc"
)

// process is a running server.
type process struct{ *childproc.Process }

func startProcess(dir, path string, args []string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	p, err := childproc.Start(cmd, dir+"/log", syscall.SIGKILL)
	return &process{p}, err
}

// kill ends the server and, by its process group, a child that saves for it.
func (p *process) kill() {
	if !p.Ended() {
		_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
	}
	<-p.Gone
}

// stop returns when the kernel has really stopped it.
func (p *process) stop() error {
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return until(context.Background(), "a stopped process", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
		if err != nil {
			return err
		}
		// The state is the letter behind the name, which stands in brackets.
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
			return fmt.Errorf("it is in state %.1s", state)
		}
		return nil
	})
}
