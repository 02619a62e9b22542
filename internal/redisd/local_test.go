package redisd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func localOptions(t *testing.T, dir string) Options {
	t.Helper()
	return Options{Mode: ModeLocal, Dir: dir, Binary: needRedis(t), Stock: []string{"demo"}}
}

func TestALocalRedisKeepsEveryWriteAndOpensNoPort(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	if s.Mode() != ModeLocal || s.Attached() {
		t.Errorf("mode %s, attached %v", s.Mode(), s.Attached())
	}
	network, address, password := s.Network()
	if network != "unix" || password != "" {
		t.Errorf("it listens on %s %s with password %q", network, address, password)
	}
	says(t, s.Describe(), "local redis-server ", "data/, append-only")
	info := do(t, s.at, "INFO")
	for _, want := range []string{"tcp_port:0", "aof_enabled:1", "maxmemory_policy:noeviction"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %s", want)
		}
	}
	args := strings.Join(serverArgs("dir", "socket"), " ")
	says(t, args, "--appendfsync always", "--port 0", "--save  ", "--unixsocketperm 700")
}

func TestThePrivateFilesArePrivate(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	for name, want := range map[string]os.FileMode{"": 0o700, stateFile: 0o600, logFile: 0o600, socketFile: 0o700} {
		st, err := os.Stat(s.folder.file(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%q has mode %v, want %v", name, got, want)
		}
	}
}

func TestTheDataOutlivesACleanRestart(t *testing.T) {
	o := localOptions(t, home(t))
	s := begin(t, o)
	do(t, s.at, "SET", "k", "kept")
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isTaken(s.folder.file(serverFile)) {
		t.Error("redis-server outlived the Close of its last user")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if got := do(t, begin(t, o).at, "GET", "k"); got != "kept" {
		t.Errorf("GET k = %q", got)
	}
}

func TestADeadRedisServerIsStartedAgainWithItsData(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	do(t, s.at, "SET", "k", "kept")
	pid := pidOf(t, s.at)
	kill9(t, pid)
	eventually(t, "another redis-server answers", func() bool {
		h, _ := probe(t.Context(), s.at)
		return h == ready && pidOf(t, s.at) != pid
	})
	if got := do(t, s.at, "GET", "k"); got != "kept" {
		t.Errorf("GET k = %q", got)
	}
}

func TestARedisServerThatCannotBeStartedAgainFails(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	manifest, err := filepath.Glob(s.folder.file("appendonlydir/*.manifest"))
	if err != nil || len(manifest) != 1 {
		t.Fatal(manifest, err)
	}
	if err := os.WriteFile(manifest[0], []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kill9(t, pidOf(t, s.at))
	says(t, (<-s.Failed()).Error(), "died 7 times in a row")
}

func TestTheServerHasItsOwnProcessGroupSoThatCtrlCSparesIt(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	group, err := syscall.Getpgid(pidOf(t, s.at))
	if err != nil {
		t.Fatal(err)
	}
	if group == syscall.Getpgrp() {
		t.Error("redis-server is in the process group of weir")
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	o := localOptions(t, home(t))
	f, err := openFolder(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.file(socketFile)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	begin(t, o)
}

func TestASocketPathThatIsTooLongGoesToTheRuntimeFolder(t *testing.T) {
	isolate(t)
	dir := filepath.Join(dataFolder(t), strings.Repeat("long/", 30), "data")
	t.Cleanup(func() { endServer(dir) })
	o := localOptions(t, dir)
	s := begin(t, o)
	do(t, s.at, "SET", "k", "kept")
	if len(s.at.Address) > maxSocketPath {
		t.Errorf("%s has %d bytes", s.at.Address, len(s.at.Address))
	}
	other := begin(t, o)
	if !other.Attached() || do(t, other.at, "GET", "k") != "kept" {
		t.Error("a second start does not share the Redis")
	}
}

func TestACopiedFolderIsNotTakenForTheOriginal(t *testing.T) {
	o := localOptions(t, home(t))
	s := begin(t, o)
	o.Dir, o.Stock = dataFolder(t), []string{"another"}
	f, err := openFolder(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.folder.file(stateFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.file(stateFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := begin(t, o)
	if copied.Attached() || copied.at.Address == s.at.Address {
		t.Error("the copy uses the Redis of the original")
	}
}

func TestARedisServerThatExitsAtOnceIsOneClearError(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"with a reason":  {"echo some reason >&2; exit 1", "some reason"},
		"without one":    {"exit 0", "it said nothing"},
		"never answers":  {"exec sleep 60", "does not answer in time"},
		"dies in a fork": {"sleep 0.2 & exit 3", "ended at once"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := home(t)
			fake := filepath.Join(t.TempDir(), "redis-server")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			refused(t, Options{Mode: ModeLocal, Dir: dir, Binary: fake}, "redis-server", c.says)
			if isTaken(filepath.Join(dir, lockFile)) {
				t.Error("the failed start still holds the folder")
			}
		})
	}
}

func TestAMissingBinaryIsOneClearError(t *testing.T) {
	for _, mode := range []string{ModeLocal, ModeAuto} {
		refused(t, Options{Mode: mode, Dir: home(t), Binary: "/no/such/redis-server"}, "redis-server cannot be run")
	}
	t.Setenv("PATH", t.TempDir())
	refused(t, Options{Mode: ModeLocal, Dir: home(t)}, "no redis-server was found on PATH", "apt-get install")
}

func TestCloseLeavesNothingOfTheServerBehindButItsData(t *testing.T) {
	o := localOptions(t, home(t))
	s := begin(t, o)
	pid := pidOf(t, s.at)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
	for _, name := range []string{socketFile, stateFile} {
		if _, err := os.Stat(s.folder.file(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
