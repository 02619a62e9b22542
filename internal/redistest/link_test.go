package redistest

import (
	"errors"
	"testing"
	"time"
)

func TestACutReplicaMissesWhatTheMasterAcknowledgesUntilHealed(t *testing.T) {
	master, replica := Replicated(t)
	m, r := master.Client(t), replica.Client(t)
	set := func(value string) {
		t.Helper()
		if err := m.Set(t.Context(), "a", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want string) {
		t.Helper()
		if got, err := r.Get(t.Context(), "a").Result(); err != nil || got != want {
			t.Fatalf("the replica holds %q (%v), want %q", got, err, want)
		}
	}
	set("before")
	WaitReplica(t, replica)
	holds("before")
	heal := CutReplication(t, replica)
	set("lost")
	if n, err := m.Wait(t.Context(), 1, 100*time.Millisecond).Result(); err != nil || n != 0 {
		t.Fatalf("WAIT says %d (%v)", n, err)
	}
	holds("before")
	master.Kill()
	master.Start()
	set("lost after a start")
	wait(t, "a refused replica", func() error {
		if entries, err := m.ACLLog(t.Context(), 1).Result(); err != nil || len(entries) == 0 {
			return errors.New("no refusal in the ACL log")
		}
		return nil
	})
	holds("before")
	heal()
	WaitReplica(t, replica)
	holds("lost after a start")
}

func TestAReplicaPromotedWithItsLinkCutHasForgottenAnAcknowledgedWrite(t *testing.T) {
	c := Cluster(t, 3, 1)
	client := c.Client(t, nil)
	old, slot := c.MasterOfKey("a")
	replica := c.ReplicaOf(old)
	if err := client.Set(t.Context(), "a", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	WaitReplica(t, replica)
	heal := CutReplication(t, replica)
	if err := client.Set(t.Context(), "a", "forgotten", 0).Err(); err != nil {
		t.Fatal(err)
	}
	old.Kill()
	heir := c.WaitFailover(t, old)
	if heir != replica || c.MasterOf(slot) != heir {
		t.Fatal("the replica has not taken over")
	}
	client.ReloadState(t.Context())
	wait(t, "the client to find the new master", func() error {
		got, err := client.Get(t.Context(), "a").Result()
		if err == nil && got != "kept" {
			t.Fatalf("the new master holds %q", got)
		}
		return err
	})
	heal()
	old.Start()
	c.WaitSettled(t)
	if c.ReplicaOf(heir) != old {
		t.Fatal("the old master does not follow the new one")
	}
}
