package redisd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperEnv makes the test binary a process that runs one Server, as weir does.
const helperEnv = "REDISD_TEST_HELPER"

func TestMain(m *testing.M) {
	if o := os.Getenv(helperEnv); o != "" {
		os.Exit(helper(o))
	}
	os.Exit(m.Run())
}

// report is what a helper process says, one JSON object a line.
type report struct {
	Mode, Network, Address, Password, Describe string
	Attached                                   bool
	Error, Failed                              string
}

// helper starts a Server and closes it when its standard input ends.
func helper(options string) int {
	out := json.NewEncoder(os.Stdout)
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		panic(err)
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := Start(context.Background(), o)
	if err != nil {
		_ = out.Encode(report{Error: err.Error()})
		return 1
	}
	_ = out.Encode(reportOf(s))
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(ended) }()
	select {
	case err := <-s.Failed():
		_ = out.Encode(report{Failed: err.Error()})
		<-ended
	case <-ended:
	}
	if err := s.Close(context.Background()); err != nil {
		_ = out.Encode(report{Error: err.Error()})
		return 1
	}
	return 0
}

func reportOf(s *Server) report {
	n, a, p := s.Network()
	return report{Mode: s.Mode(), Network: n, Address: a, Password: p, Describe: s.Describe(), Attached: s.Attached()}
}

func (r report) endpoint() endpoint { return endpoint{r.Mode, r.Network, r.Address, r.Password} }

// process is a helper process.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

// run starts a helper process without waiting for its first report.
func run(t *testing.T, o Options) *process {
	t.Helper()
	o.Log = nil
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+string(options))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

// next is the process's next report.
func (p *process) next() report {
	p.t.Helper()
	var r report
	if !p.out.Scan() {
		p.t.Fatal("the process ended without a report")
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// ready is the report of a process that must have started.
func (p *process) ready() report {
	p.t.Helper()
	r := p.next()
	if r.Error != "" {
		p.t.Fatal(r.Error)
	}
	return r
}

func (p *process) kill9() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// close ends the process in good order.
func (p *process) close() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// home isolates the registry and makes a data folder whose redis-server dies with the test.
func home(t *testing.T) string {
	t.Helper()
	isolate(t)
	return dataFolder(t)
}

func isolate(t *testing.T) { t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) }

func dataFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() { endServer(dir) })
	return dir
}

// endServer kills what may be left of a redis-server on the folder and waits for its end.
func endServer(dir string) {
	f, err := openFolder(dir)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s := &Server{folder: f, at: f.localEndpoint(), log: slog.New(slog.DiscardHandler)}
	_ = s.shutDown(ctx)
}

// needRedis returns the real redis-server.
func needRedis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
		return path
	case os.Getenv("WEIR_REQUIRE_REAL") == "1":
		t.Fatal(err)
	default:
		t.Skip("no redis-server on PATH")
	}
	return ""
}

// begin runs a Server in this process and closes it with the test.
func begin(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func quiet(o Options) Options {
	o.Log = slog.New(slog.DiscardHandler)
	return o
}

// refused is the error of a start that must fail, within the promised five seconds.
func refused(t *testing.T, o Options, words ...string) {
	t.Helper()
	began := time.Now()
	s, err := Start(t.Context(), quiet(o))
	if err == nil {
		_ = s.Close(context.Background())
		t.Fatal("it started")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the refusal took %v", took)
	}
	says(t, err.Error(), words...)
}

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
	if strings.Contains(strings.TrimSpace(text), "\n") {
		t.Errorf("%q is more than one line", text)
	}
}

// do runs a command that must succeed.
func do(t *testing.T, e endpoint, args ...string) string {
	t.Helper()
	v, err := command(t.Context(), e, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// eventually waits for a condition that other processes bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !ok() {
		if !pause(ctx, pollEvery) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// pidOf is the process id of the Redis at e; it is needed to kill it.
func pidOf(t *testing.T, e endpoint) int {
	t.Helper()
	for line := range strings.Lines(do(t, e, "INFO", "server")) {
		var pid int
		if n, _ := fmt.Sscanf(line, "process_id:%d", &pid); n == 1 {
			return pid
		}
	}
	t.Fatal("INFO names no process id")
	return 0
}

func kill9(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}
