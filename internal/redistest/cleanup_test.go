package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestNothingStaysBehind(t *testing.T) {
	var nodes []*Node
	var pids []int
	t.Run("all kinds", func(t *testing.T) {
		nodes = append(nodes, Single(t), TLS(t).Node)
		master, replica := Replicated(t)
		nodes = append(nodes, master, replica)
		nodes = append(nodes, Cluster(t, 3, 1).Nodes()...)
		s := Sentinel(t)
		nodes = append(append(nodes, s.Nodes()...), s.Sentinels()...)
		for _, n := range nodes {
			pids = append(pids, n.process.Cmd.Process.Pid)
		}
		nodes[0].Stop() // a stopped process must go too
	})
	for i, n := range nodes {
		if alive(pids[i]) {
			t.Errorf("process %d of %s lives", pids[i], n.Addr())
		}
		if _, err := os.Stat(n.Dir()); !os.IsNotExist(err) {
			t.Errorf("the folder of %s stayed: %v", n.Addr(), err)
		}
	}
	if len(nodes) != 16 {
		t.Fatalf("looked at %d nodes", len(nodes))
	}
}

func TestAServerDiesWithAKilledTestProgram(t *testing.T) {
	if os.Getenv("REDISTEST_VICTIM") == "1" {
		n := Single(t)
		fmt.Printf("victim %d %s\n", n.process.Cmd.Process.Pid, n.Dir())
		<-t.Context().Done() // until killed
		return
	}
	server(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestAServerDiesWithAKilledTestProgram$", "-test.v")
	cmd.Env = append(os.Environ(), "REDISTEST_VICTIM=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "victim %d %s", &pid, &dir)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if pid == 0 {
		t.Fatal("the victim did not start")
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	wait(t, "the server to die", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // dead, and nobody has asked for its status
			return nil
		}
		return errors.New("it lives")
	})
}

func TestAPortIsGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port := reservePort(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
	}
}
