package pgtest

import (
	"os"
	"strings"
	"testing"
)

func TestACommittedRowIsThereAfterAKillAndARun(t *testing.T) {
	s := Start(t, os.Getenv("WEIR_REQUIRE_REAL") == "1")
	s.NewDatabase(t)
	s.Exec(t, "test1", "CREATE TABLE a (n INT)")
	s.Exec(t, "test1", "INSERT INTO a VALUES (7)")
	s.Kill()
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(s.Exec(t, "test1", "SELECT n FROM a")); got != "7" {
		t.Fatalf("read %q, want 7", got)
	}
}

func TestCloseLeavesNoFolder(t *testing.T) {
	s := Start(t, os.Getenv("WEIR_REQUIRE_REAL") == "1")
	s.Close()
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Fatalf("the folder %s stayed: %v", s.dir, err)
	}
}
