// Package childproc starts the servers of tests so that none outlives its test
// program.
package childproc

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child.
type Process struct {
	Cmd  *exec.Cmd
	Gone chan struct{} // closed when it has ended
}

// Start runs cmd with its output appended to the file log. last is what the
// kernel sends it when the test program dies, also by SIGKILL. That means the
// thread that started it, so one thread is kept for the child's whole life.
func Start(cmd *exec.Cmd, log string, last syscall.Signal) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = last
	p := &Process{Cmd: cmd, Gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.Gone)
		}
	}()
	return p, <-started
}

// Ended says whether it is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}
