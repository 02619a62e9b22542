package inventory

import (
	"strings"
	"testing"

	"weir/internal/redistest"
)

// TestStock_T31_AForgottenReleaseAndResaleIsListed: the heir knows Ann's
// reservation, which she gave back, and nothing of Bob, who was told that her
// unit is his. The sale is paused, and the audit names him.
func TestStock_T31_AForgottenReleaseAndResaleIsListed(t *testing.T) {
	master, replica := redistest.Replicated(t)
	v := &env{client: master.Client(t)}
	v.store = newStore(t, v.client, false)
	sale := v.openSale(t, 1, nil)
	ann := v.won(t, sale, "ann")
	redistest.WaitReplica(t, replica)
	heal := redistest.CutReplication(t, replica)
	defer heal()
	must(t, second(v.store.Release(t.Context(), sale.ID, ann.ID, 1)))
	bob := v.won(t, sale, "bob")
	master.Kill()
	heir := replica.Client(t)
	must(t, heir.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	v.store.redis, v.client = heir, heir
	eventually(t, "the loss is found", func() bool {
		_ = v.store.Refresh(t.Context())
		view, _ := v.store.View(sale.ID)
		return view.Desired == DesiredPaused
	})
	var a Audit
	eventually(t, "his win is tried again", func() bool {
		_ = v.store.Refresh(t.Context())
		var err error
		a, err = v.store.Audit(t.Context(), sale.ID)
		return err == nil && !a.OK
	})
	if !a.Proved || len(a.Differences) != 1 || !strings.Contains(a.Differences[0], bob.ID) || !strings.Contains(a.Differences[0], `"bob"`) {
		t.Fatalf("%+v", a)
	}
	// A person gives Ann's unit to Bob, and sells on.
	must(t, second(v.store.Release(t.Context(), sale.ID, ann.ID, 0)))
	r := mustFind(t, v.store, ann.ID)
	r.ID, r.User, r.State = bob.ID, "bob", Confirmed
	must(t, second(v.store.Restore(t.Context(), r)))
	must(t, second(v.store.SetDesired(t.Context(), sale.ID, DesiredOn)))
	checkInvariant(t, v.store, sale.ID)
}
