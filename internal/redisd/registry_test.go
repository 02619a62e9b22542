package redisd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecondStockOfASaleIsRefusedAlsoAfterKill9(t *testing.T) {
	o := localOptions(t, home(t))
	p := run(t, o)
	e := p.ready().endpoint()
	other := Options{Mode: ModeMemory, Dir: dataFolder(t), Stock: []string{"summer", "demo"}}
	folder := filepath.Dir(e.Address)
	words := []string{`sale "demo"`, folder, "--data " + folder, "--redis unix:" + e.Address}
	refused(t, other, words...)
	p.kill9()
	refused(t, other, words...) // the redis-server lives on, and its stock
	kill9(t, pidOf(t, e))
	eventually(t, "it is dead", func() bool { h, _ := probe(t.Context(), e); return h == dead })
	refused(t, other, `sale "demo"`, "was left in the data folder "+folder, "--data "+folder) // on disk
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	begin(t, other) // given up on purpose
	refused(t, o, `sale "demo"`, "share it with --data ")
}

func TestAMemoryStockIsGuardedUntilItsProcessEnds(t *testing.T) {
	o := memoryOptions(home(t))
	p := run(t, o)
	p.ready()
	other := memoryOptions(dataFolder(t))
	refused(t, other, `sale "demo"`)
	p.kill9()
	begin(t, other)
}

func TestTheRefusalNamesNoPasswordAndNoAddressThatNeedsOne(t *testing.T) {
	first := memoryOptions(home(t))
	s := begin(t, first)
	_, err := Start(t.Context(), quiet(memoryOptions(dataFolder(t))))
	if err == nil {
		t.Fatal("it started")
	}
	says(t, err.Error(), "share it with --data "+s.folder.path)
	for _, secret := range []string{s.at.Password, "--redis", s.at.Address} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q says %q", err, secret)
		}
	}
}

func TestCloseFreesTheSale(t *testing.T) {
	isolate(t)
	for _, o := range []Options{localOptions(t, dataFolder(t)), memoryOptions(dataFolder(t)), memoryOptions(dataFolder(t))} {
		s := begin(t, o)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		dir, err := runtimeDir()
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "stock-*")); len(left) != 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestTheSaleStaysGuardedWhileAnotherProcessUsesTheRedis(t *testing.T) {
	o := localOptions(t, home(t))
	holder := run(t, o)
	holder.ready()
	o.Stock = nil // it came without the sale, but it uses the same Redis
	begin(t, o)
	holder.close()
	refused(t, memoryOptions(dataFolder(t)), `sale "demo"`)
}

func TestOtherSalesAndOtherFoldersGoTogether(t *testing.T) {
	isolate(t)
	a := memoryOptions(dataFolder(t))
	begin(t, a)
	b := memoryOptions(dataFolder(t))
	b.Stock = []string{"autumn"}
	begin(t, b)
}

func TestOfManyStartsAtOnceInDifferentFoldersOneGetsTheSale(t *testing.T) {
	isolate(t)
	var procs []*process
	for range 5 {
		procs = append(procs, run(t, memoryOptions(dataFolder(t))))
	}
	started := 0
	for _, p := range procs {
		if r := p.next(); r.Error == "" {
			started++
		} else {
			says(t, r.Error, `sale "demo"`)
		}
	}
	if started != 1 {
		t.Errorf("%d of 5 have the stock", started)
	}
}

func TestTheRuntimeFolderIsPrivateAndOurs(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	dir, err := runtimeDir()
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 || !strings.HasPrefix(dir, base) {
		t.Errorf("%s: %v, %v", dir, st.Mode(), err)
	}
}

func TestALinkAsRuntimeFolderIsRefused(t *testing.T) {
	link := filepath.Join(t.TempDir(), "weir")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := privateDir(link); err == nil {
		t.Error("it was accepted")
	}
}
