package inventory

import (
	"context"
	"strings"
	"testing"
	"time"
)

// differs wants one proved difference that says all of these.
func (v *env) differs(t *testing.T, sale string, words ...string) {
	t.Helper()
	a, err := v.store.Audit(t.Context(), sale)
	must(t, err)
	if a.OK || !a.Proved || len(a.Differences) != 1 {
		t.Fatalf("%+v", a)
	}
	for _, w := range words {
		if !strings.Contains(a.Differences[0], w) {
			t.Errorf("%q does not say %q", a.Differences[0], w)
		}
	}
}

func TestAudit_NamesAHoldThatNobodyWillFree(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		sale := v.openSale(t, 10, func(s *Sale) { s.Expiry = ExpiryAsk })
		ann, bob, cid := v.won(t, sale, "ann"), v.won(t, sale, "bob"), v.won(t, sale, "cid")
		must(t, second(v.store.Accept(ctx, sale.ID, ann.ID, 1, "S")))
		must(t, second(v.store.Extend(ctx, sale.ID, bob.ID, time.Second)))
		checkInvariant(t, v.store, sale.ID)
		b := v.bucket(sale.ID)
		lost := func(key, entry string) (back func()) {
			must(t, v.client.LRem(ctx, key, 1, entry).Err())
			return func() { must(t, v.client.RPush(ctx, key, entry).Err()) }
		}
		back := lost(b.holdsKey(), shorten(ann.ID))
		v.differs(t, sale.ID, ann.ID, "nobody will ever free it")
		back()
		back = lost(b.holdsKey(), shorten(cid.ID))
		v.differs(t, sale.ID, cid.ID, "nobody will ever free it")
		back()
		back = lost(b.extendedKey(), shorten(bob.ID)) // his first attempt is open, so it is asked about by the holds
		back2 := lost(b.holdsKey(), shorten(bob.ID))
		v.differs(t, sale.ID, bob.ID, "nobody will ever free it")
		back2()
		back()
		v.advance(t, sale.ID, attempt)
		v.reserve(t, cid, Known) // attempt 2
		entry := v.client.LRange(ctx, b.attemptsKey(), -1, -1).Val()[0]
		back = lost(b.attemptsKey(), entry)
		v.differs(t, sale.ID, cid.ID, "nobody will ever ask about it")
		back()
		checkInvariant(t, v.store, sale.ID)
	})
}

func TestAudit_OfManyHoldsLooksUpNoneThatStandsInItsList(t *testing.T) {
	v := realEnv(t)
	sale := v.openSale(t, 5000, func(s *Sale) { s.BuyerLimit = 0 })
	v.fill(t, sale, 3000)
	calls := v.commandCalls(t)
	checkInvariant(t, v.store, sale.ID)
	if n := v.commandCalls(t)["lpos"] - calls["lpos"]; n != 0 {
		t.Errorf("%d were looked up one by one", n)
	}
}

func TestAudit_TheArchiveMustNotKnowMoreThanTheLedger(t *testing.T) {
	eachRedis(t, func(t *testing.T, v *env) {
		ctx := t.Context()
		kept := newCaseArchive()
		v.store.archive = kept
		sale := v.openSale(t, 10, nil)
		ann, bob := v.won(t, sale, "ann"), v.won(t, sale, "bob")
		a, b := mustFind(t, v.store, ann.ID), mustFind(t, v.store, bob.ID)
		must(t, kept.Save(ctx, sale, []Reservation{a, b}))
		must(t, second(v.store.Confirm(ctx, sale.ID, ann.ID, 1, "S")))
		checkInvariant(t, v.store, sale.ID) // the archive lags

		b.State = Confirmed
		must(t, kept.Save(ctx, sale, []Reservation{b}))
		v.differs(t, sale.ID, bob.ID, "confirmed in the archive and reserved in the ledger")
		b.State = Reserved
		must(t, kept.Save(ctx, sale, []Reservation{b}))
		tomb, gone := b, b
		tomb.ID, tomb.State = NewOrderID(sale.ID, "x"), Cancelled
		gone.ID = NewOrderID(sale.ID, "cid")
		must(t, kept.Save(ctx, sale, []Reservation{tomb, gone}))
		v.differs(t, sale.ID, gone.ID, "the ledger does not have it")

		v.store.archive = mute{kept}
		audit, err := v.store.Audit(ctx, sale.ID)
		if err != nil || audit.OK || audit.Proved || !strings.Contains(audit.Differences[0], "the archive cannot be read") {
			t.Errorf("%+v %v", audit, err)
		}
	})
}

// mute is an archive that cannot be read.
type mute struct{ *caseArchive }

func (mute) Each(context.Context, string, func(Reservation) error) error {
	return ErrArchiveUnavailable
}
