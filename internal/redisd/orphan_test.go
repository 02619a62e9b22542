package redisd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unlink removes a file of a data folder, as a cleaner of temporary files does.
func unlink(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// gone tells whether the process has ended (a zombie has; its parent is a killed helper).
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return strings.Contains(string(b), ") Z ")
}

func TestASaleStaysGuardedWhenTheSocketFileIsGone(t *testing.T) {
	for _, holder := range []string{"lives", "is killed"} {
		t.Run("the holder "+holder, func(t *testing.T) {
			o := localOptions(t, home(t))
			p := run(t, o)
			p.ready()
			if holder == "is killed" {
				p.kill9()
			}
			unlink(t, o.Dir, socketFile)
			for _, other := range []Options{localOptions(t, dataFolder(t)), memoryOptions(dataFolder(t))} {
				refused(t, other, `sale "demo" is already held`)
			}
		})
	}
}

func TestASaleStaysGuardedWhileItsRedisServerIsStartedAgain(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	kill9(t, pidOf(t, s.at))
	refused(t, memoryOptions(dataFolder(t)), `sale "demo" is already held`)
}

func TestTheHolderReplacesARedisServerWhoseSocketIsGone(t *testing.T) {
	for name, removed := range map[string][]string{
		"the socket":           {socketFile},
		"all but the data":     {socketFile, stateFile, serverFile},
		"the socket, a folder": {socketFile},
	} {
		t.Run(name, func(t *testing.T) {
			o := localOptions(t, home(t))
			s := begin(t, o)
			attached := begin(t, o)
			do(t, s.at, "SET", "k", "kept")
			pid := pidOf(t, s.at)
			unlink(t, o.Dir, removed...)
			if strings.HasSuffix(name, "folder") {
				if err := os.Mkdir(s.at.Address, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "another redis-server answers", func() bool {
				h, _ := probe(t.Context(), s.at)
				return h == ready
			})
			if pidOf(t, s.at) == pid || !gone(pid) {
				t.Errorf("process %d still runs", pid)
			}
			if got := do(t, attached.at, "GET", "k"); got != "kept" {
				t.Errorf("GET k = %q", got)
			}
			if pids := s.folder.servers(); len(pids) != 1 {
				t.Errorf("the redis-servers of the folder are %v", pids)
			}
		})
	}
}

func TestAStartWaitsUntilTheHolderHasReplacedTheRedisServer(t *testing.T) {
	o := localOptions(t, home(t))
	p := run(t, o)
	do(t, p.ready().endpoint(), "SET", "k", "kept")
	unlink(t, o.Dir, socketFile, stateFile)
	s := begin(t, o)
	if !s.Attached() || do(t, s.at, "GET", "k") != "kept" {
		t.Error("it does not share the data")
	}
}

func TestTheStateFileIsWrittenAgain(t *testing.T) {
	o := localOptions(t, home(t))
	begin(t, o)
	unlink(t, o.Dir, stateFile)
	if s := begin(t, o); !s.Attached() {
		t.Error("it is not attached")
	}
}

func TestCloseIsQuickAndLeavesNoOrphanWhenTheSocketIsGone(t *testing.T) {
	closes := func(t *testing.T, s *Server, pid int) {
		t.Helper()
		began := time.Now()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if !gone(pid) {
			t.Errorf("redis-server %d is left", pid)
		}
	}
	t.Run("the holder", func(t *testing.T) {
		s := begin(t, localOptions(t, home(t)))
		pid := pidOf(t, s.at)
		unlink(t, s.folder.path, socketFile)
		closes(t, s, pid)
	})
	t.Run("an attached process", func(t *testing.T) {
		o := localOptions(t, home(t))
		holder := run(t, o)
		holder.ready()
		s := begin(t, o)
		pid := pidOf(t, s.at)
		holder.kill9()
		unlink(t, o.Dir, socketFile)
		closes(t, s, pid)
	})
}

func TestAnOrphanWithoutASocketIsReplacedOnItsData(t *testing.T) {
	for name, removed := range map[string][]string{
		"the socket":       {socketFile},
		"all but the data": {socketFile, stateFile, serverFile, lockFile, usersFile, logFile},
	} {
		t.Run(name, func(t *testing.T) {
			o := localOptions(t, home(t))
			p := run(t, o)
			e := p.ready().endpoint()
			do(t, e, "SET", "k", "kept")
			pid := pidOf(t, e)
			p.kill9()
			unlink(t, o.Dir, removed...)
			began := time.Now()
			s := begin(t, o)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the start took %v", took)
			}
			if s.Attached() || pidOf(t, s.at) == pid || !gone(pid) {
				t.Errorf("attached %v, process %d gone: %v", s.Attached(), pid, gone(pid))
			}
			if got := do(t, s.at, "GET", "k"); got != "kept" {
				t.Errorf("GET k = %q", got)
			}
		})
	}
}

func TestARedisServerThatCannotBeReplacedIsLeftAlone(t *testing.T) {
	o := localOptions(t, home(t))
	p := run(t, o)
	pid := pidOf(t, p.ready().endpoint())
	p.kill9()
	unlink(t, o.Dir, socketFile)

	t.Setenv("PATH", t.TempDir())
	refused(t, Options{Mode: ModeAuto, Dir: o.Dir}, "socket", "is gone", "no redis-server was found")
	base, err := filepath.Glob(filepath.Join(o.Dir, "appendonlydir", "*.base.rdb"))
	if err != nil || len(base) != 1 {
		t.Fatal(base, err)
	}
	unlink(t, filepath.Dir(base[0]), filepath.Base(base[0])) // one file of several
	refused(t, o, "was emptied under its redis-server", "kill "+strconv.Itoa(pid), "--data")
	if gone(pid) {
		t.Error("it was ended, and its stock with it")
	}
}

func TestAHolderWhoseFolderIsEmptiedFails(t *testing.T) {
	s := begin(t, localOptions(t, home(t)))
	unlink(t, s.folder.path, socketFile, "appendonlydir")
	says(t, (<-s.Failed()).Error(), "was emptied under its redis-server")
}

func TestOnlyAnAddressThatNobodyListensAtIsLost(t *testing.T) {
	for _, c := range []struct {
		why  error
		lost bool
	}{
		{nil, false},
		{syscall.ENOENT, true},
		{syscall.ECONNREFUSED, true},
		{syscall.EAGAIN, false}, // its queue is full
		{os.ErrDeadlineExceeded, false},
		{replyError("ERR max number of clients reached"), false},
		{replyError("LOADING Redis is loading the dataset in memory"), false},
	} {
		if got := new(absence).over(c.why); got != c.lost {
			t.Errorf("%v: lost %v", c.why, got)
		}
	}
}

func TestAnAbsenceBeginsAnewWhenSomebodyListens(t *testing.T) {
	a := absence{since: time.Now().Add(-time.Hour), limit: time.Minute}
	if !a.over(syscall.ENOENT) {
		t.Error("an hour is not over")
	}
	if a.over(nil) || a.over(syscall.ENOENT) {
		t.Error("it goes on")
	}
}

func TestOtherProcessesAreNotTakenForARedisServer(t *testing.T) {
	f, err := openFolder(home(t))
	if err != nil {
		t.Fatal(err)
	}
	if pids := f.servers(); len(pids) != 0 {
		t.Errorf("the empty folder has %v", pids)
	}
	s := begin(t, localOptions(t, dataFolder(t)))
	if f.isServer(pidOf(t, s.at)) || !s.folder.isServer(pidOf(t, s.at)) || s.folder.isServer(os.Getpid()) {
		t.Error("the redis-server of another folder is taken for ours")
	}
}
