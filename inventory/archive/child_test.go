package archive

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"weir/inventory"
)

// childJob names the DSN on which this program, started again, saves rows.
const childJob = "WEIR_ARCHIVE_TEST_DSN"

const childRows = 1000

// runChild saves all rows of a sale of childRows/2 units: first all as reserved,
// then half of them as confirmed.
func runChild(dsn string) int {
	ctx := context.Background()
	d, err := Open(ctx, dsn)
	for at := 0; at < 2*childRows && err == nil; at += inventory.ArchiveSlice {
		var rows []inventory.Reservation
		for i := at; i < at+inventory.ArchiveSlice; i++ {
			r := row(i%childRows, inventory.Reserved, 1)
			if i >= childRows && i%2 == 0 {
				r.State = inventory.Confirmed
			}
			rows = append(rows, r)
		}
		err = d.Save(ctx, plan(childRows/2), rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func startChild(t *testing.T, dsn string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childJob+"="+dsn)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	return cmd
}

func TestProcessesThatSaveTheSameSlicesStoreThemOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		var children []*exec.Cmd
		for range 3 {
			children = append(children, startChild(t, dsn))
		}
		for _, cmd := range children {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		d := open(t, dsn)
		if all := checkArchive(t, d, "sale-1"); len(all) != childRows {
			t.Fatalf("%d rows, want %d", len(all), childRows)
		}
		wantSold(t, d, childRows/2)
	})
}

func TestAWriterKilledInTheMiddleLeavesWholeSlices(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		save(t, d, plan(childRows/2))
		cmd := startChild(t, dsn)
		eventually(t, "the child has confirmed some", func() bool {
			kept, err := d.Sale(t.Context(), "sale-1")
			must(t, err)
			return kept.Sold > 0
		})
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed, or done just before
		if n := len(checkArchive(t, d, "sale-1")); n%inventory.ArchiveSlice != 0 {
			t.Fatalf("%d rows: no whole slices", n)
		}
		if runChild(dsn) != 0 {
			t.Fatal("the next writer failed")
		}
		if all := checkArchive(t, d, "sale-1"); len(all) != childRows {
			t.Fatalf("%d rows, want %d", len(all), childRows)
		}
		wantSold(t, d, childRows/2)
	})
}
