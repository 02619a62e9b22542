package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/inventory"
)

// TestStock_MarksOfReplicasThatShareAFolderAddUp: each keeps what it saw, at the
// same time.
func TestStock_MarksOfReplicasThatShareAFolderAddUp(t *testing.T) {
	file := markFile{filepath.Join(t.TempDir(), "new", "marks.json")}
	if all, err := file.Load(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	var replicas sync.WaitGroup
	for i := range 8 {
		replicas.Go(func() {
			for n := range int64(20) {
				seqs := make([]int64, 8)
				seqs[i] = n + 1
				m := map[string]inventory.Mark{"demo": {Generation: 1, Seqs: seqs}, fmt.Sprint("own-", i): {Generation: n, Seqs: seqs}}
				if err := file.Save(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	replicas.Wait()
	all, err := file.Load()
	noErr(t, err)
	if got := fmt.Sprint(all["demo"]); got != "{1 [20 20 20 20 20 20 20 20] 0}" || len(all) != 9 {
		t.Errorf("%s of %d sales", got, len(all))
	}
	noErr(t, file.Save(map[string]inventory.Mark{"demo": {Generation: 1, Seqs: make([]int64, 8), Judged: 1}}))
	if all, err = file.Load(); err != nil || all["demo"].Seqs[0] != 0 {
		t.Errorf("a loss was judged, and the mark is as before: %+v %v", all["demo"], err)
	}
	left, err := os.ReadDir(filepath.Dir(file.path))
	noErr(t, err)
	if len(left) != 2 { // the file and its lock
		t.Errorf("left behind: %v", left)
	}
}

func TestStock_MarksThatCannotBeReadStopTheStart(t *testing.T) {
	c := quiet(t, "local")
	needRedis(t)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	noErr(t, os.WriteFile(filepath.Join(c.Data, "marks.json"), []byte("{"), 0o600))
	why := whyNot(t, c, nil)
	for _, word := range []string{"marks.json", "restore it, or remove it if no sale runs"} {
		if !strings.Contains(why, word) {
			t.Errorf("want %q, got: %s", word, why)
		}
	}
}
