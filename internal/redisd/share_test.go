package redisd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

func TestTwoProcessesOnOneFolderShareOneRedis(t *testing.T) {
	for _, mode := range []string{ModeLocal, ModeMemory} {
		t.Run(mode, func(t *testing.T) {
			dir := home(t)
			o := Options{Mode: mode, Dir: dir, Stock: []string{"demo"}}
			if mode == ModeLocal {
				o.Binary = needRedis(t)
			}
			a, b := run(t, o), run(t, o) // at the same moment
			ra, rb := a.ready(), b.ready()
			if ra.endpoint() != rb.endpoint() {
				t.Errorf("%v and %v", ra.endpoint(), rb.endpoint())
			}
			if ra.Attached == rb.Attached {
				t.Errorf("attached: %v and %v, want one of them", ra.Attached, rb.Attached)
			}
		})
	}
}

func TestAnAttachedProcessTakesOverFromAKilledHolder(t *testing.T) {
	o := localOptions(t, home(t))
	holder := run(t, o)
	e := holder.ready().endpoint()
	do(t, e, "SET", "k", "kept")
	pid := pidOf(t, e)
	s := begin(t, o)
	if !s.Attached() {
		t.Fatal("it is not attached")
	}
	holder.kill9()
	eventually(t, "the attached one is the holder", func() bool { return !s.Attached() })
	if pidOf(t, s.at) != pid || do(t, s.at, "GET", "k") != "kept" {
		t.Error("the live redis-server was not adopted")
	}
	kill9(t, pid)
	eventually(t, "the new holder has started another", func() bool {
		h, _ := probe(t.Context(), s.at)
		return h == ready
	})
	if do(t, s.at, "GET", "k") != "kept" {
		t.Error("the data is gone")
	}
}

func TestTheHolderLeavesTheRedisToThoseWhoUseIt(t *testing.T) {
	o := localOptions(t, home(t))
	holder := run(t, o)
	e := holder.ready().endpoint()
	pid := pidOf(t, e)
	s := begin(t, o)
	holder.close()
	if pidOf(t, e) != pid {
		t.Error("the redis-server was replaced")
	}
	eventually(t, "the other one is the holder", func() bool { return !s.Attached() })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h, _ := probe(t.Context(), e); h != dead {
		t.Error("it outlived its last user")
	}
}

func TestALastUserThatNeverWasTheHolderEndsTheRedisToo(t *testing.T) {
	o := localOptions(t, home(t))
	holder := run(t, o)
	holder.ready()
	s := begin(t, o)
	holder.kill9()
	if err := s.Close(t.Context()); err != nil { // perhaps before it has noticed
		t.Fatal(err)
	}
	if h, _ := probe(t.Context(), s.at); h != dead {
		t.Error("it outlived its last user")
	}
}

func TestAfterKillOfAllProcessesTheDataIsThere(t *testing.T) {
	for _, server := range []string{"lives on", "is killed too"} {
		t.Run(server, func(t *testing.T) {
			o := localOptions(t, home(t))
			a, b := run(t, o), run(t, o)
			e := a.ready().endpoint()
			b.ready()
			do(t, e, "SET", "k", "kept")
			pid := pidOf(t, e)
			a.kill9()
			b.kill9()
			if server == "is killed too" {
				kill9(t, pid)
			}
			s := begin(t, o)
			if s.Attached() || do(t, s.at, "GET", "k") != "kept" {
				t.Errorf("attached %v, GET k = %q", s.Attached(), do(t, s.at, "GET", "k"))
			}
			if lives := pidOf(t, s.at) == pid; lives != (server == "lives on") {
				t.Errorf("the same redis-server: %v", lives)
			}
		})
	}
}

func TestManyStartsAndKillsNeverMakeTwoServers(t *testing.T) {
	o := localOptions(t, home(t))
	var e endpoint
	for range 5 {
		procs := []*process{run(t, o), run(t, o), run(t, o)}
		for _, p := range procs {
			e = p.ready().endpoint()
			do(t, e, "INCR", "n")
		}
		var kills sync.WaitGroup
		for _, p := range procs {
			kills.Go(p.kill9)
		}
		kills.Wait()
	}
	if got := do(t, begin(t, o).at, "GET", "n"); got != "15" {
		t.Errorf("n = %s, want 15", got)
	}
}

func TestAHungServerIsNotReplacedByASecondOne(t *testing.T) {
	o := localOptions(t, home(t))
	p := run(t, o)
	pid := pidOf(t, p.ready().endpoint())
	p.kill9()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	refused(t, o, "runs but does not answer in time")
}

func TestAFolderThatIsAFileIsRefused(t *testing.T) {
	isolate(t)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, memoryOptions(file), "the data folder "+file+" cannot be used", "not a directory")
}

func TestAFolderThatWeMayNotReadIsRefused(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		_, err := Start(t.Context(), quiet(memoryOptions(dir)))
		if err == nil {
			t.Error("it started")
			return
		}
		says(t, err.Error(), "cannot be used", "permission denied")
	}()
	<-done
}

func TestAStartThatIsCalledOffSaysSo(t *testing.T) {
	o := localOptions(t, home(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, quiet(o)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
