package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/pgtest"
	"weir/internal/redistest"
	"weir/inventory"
)

// archives runs a test with each database that may keep sales.
func archives(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "sales.db")) })
	t.Run("postgres", func(t *testing.T) {
		test(t, pgtest.Start(t, os.Getenv("WEIR_REQUIRE_REAL") != "").NewDatabase(t))
	})
}

// shortLived is a sale of three units, paid later, that is over in seconds and
// stays in Redis for one more.
func shortLived(t *testing.T, url string) Config {
	c := onNode(t, redistest.Single(t))
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
	s := &c.Sales[0]
	s.Total, s.Settle, s.Expiry, s.Hold, s.EndsAt = 3, "payment", "free", 3*time.Second, SaleTime{After: 3 * time.Second}
	c.Archive.URL, c.Archive.Interval, c.Archive.Keep = url, time.Second, time.Minute
	if faults := c.Validate(); len(faults) > 0 {
		t.Fatal(faults)
	}
	c.Archive.Keep = time.Second
	return c
}

// TestStock_H18_ASaleThatIsOnlyInTheArchiveAnswersAsBefore: T-18d and T-40 too.
func TestStock_H18_ASaleThatIsOnlyInTheArchiveAnswersAsBefore(t *testing.T) {
	archives(t, func(t *testing.T, url string) {
		w, said := launch(t, shortLived(t, url), nil)
		alice, bob, cid := w.person("alice"), w.person("bob"), w.person("cid")
		pass := alice.mustPass("demo")
		paid := alice.buy(pass).header.Get("Weir-Reservation")
		late := bob.buy(bob.mustPass("demo")).header.Get("Weir-Reservation")
		back := cid.buy(cid.mustPass("demo")).header.Get("Weir-Reservation")
		for _, id := range []string{paid, back} {
			w.reservation(id, "confirm", "confirmed")
		}
		eventually(t, 20*time.Second, "the sale is over and gone from Redis", func() bool {
			v, _ := w.p.stock.View("demo")
			return v.Gone
		})
		if keys := w.p.redis.stock.Keys(t.Context(), "weir:*:demo:*").Val(); len(keys) > 0 {
			t.Errorf("left in Redis: %v\n%s", keys, said)
		}
		w.sold(2)
		buyersLearn(t, alice, pass, paid)

		w.reservation(late, "confirm", "confirmed") // the unit was never sold to another
		w.sold(3)
		w.reservation(late, "confirm", "confirmed")
		w.reservation(back, "release", "returned")
		w.reservation(back, "release", "returned") // once
		w.sold(2)
		w.refusedAfterwards(back, late)
		code, out := w.weirSays("sale", "ledger", "demo")
		if code != exitOK || strings.Count(out, " confirmed ") != 2 || strings.Count(out, " returned ") != 1 {
			t.Errorf("sale ledger: %d\n%s", code, out)
		}
		again := w.p.cfg
		w.stop()
		w, _ = launch(t, again, nil) // which neither preheats nor forgets it
		w.sold(2)
		w.reservation(paid, "confirm", "confirmed")
	})
}

// reservation settles by the private API and wants this state.
func (w *world) reservation(id, verb, state string) {
	w.t.Helper()
	body := map[string]string{"order": "A-1"}
	if verb == "release" {
		body = map[string]string{"reason": "sent back"}
	}
	r := w.op("POST", "/api/v1/reservations/"+id+"/"+verb, body)
	if r.status != http.StatusOK || r.json()["state"] != state {
		w.t.Errorf("%s: want %s, got %s", verb, state, r)
	}
}

// sold wants the archive's account, by the program's own verbs.
func (w *world) sold(n int64) {
	w.t.Helper()
	l := w.invariant("demo")
	if age := time.Since(l.At); age < -time.Minute || age > time.Minute {
		w.t.Errorf("the account is of %s", l.At)
	}
	if l.Total != 3 || l.Confirmed != n || l.Free != 3-n || l.Reserved != 0 {
		w.t.Errorf("want %d sold: %+v", n, l)
	}
	if code, out := w.weirSays("sale", "audit", "demo"); code != exitOK {
		w.t.Errorf("sale audit: %d %s", code, out)
	}
	if code, out := w.weirSays("sale", "level", "demo"); code != exitOK || !strings.Contains(out, "demo") {
		w.t.Errorf("sale level: %d %s", code, out)
	}
}

// buyersLearn: who bought sees it, in every way he may ask, and nobody else.
func buyersLearn(t *testing.T, p *person, pass, id string) {
	t.Helper()
	at := "/_weir/reservations/" + id
	if r := p.must("GET", at, nil); r.status != http.StatusOK || r.json()["state"] != "confirmed" {
		t.Errorf("his reservation: %s", r)
	}
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	if r := p.must("GET", at, nil, html); r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
		t.Errorf("its page: %s", r)
	}
	stranger := p.w.person("mallory")
	if r := stranger.must("GET", at, nil); r.status != http.StatusNotFound && r.status != http.StatusForbidden {
		t.Errorf("a stranger sees it: %s", r)
	}
	stranger.session = "" // on another device, by the pass alone
	if r := stranger.must("GET", at, nil, withPass(pass)); r.status != http.StatusOK || r.json()["state"] != "confirmed" {
		t.Errorf("by the pass: %s", r)
	}
	if r := p.buy(pass); r.code() != "sale_ended" || r.header.Get("Location") != at {
		t.Errorf("the button again: %s, Location %q", r, r.header.Get("Location"))
	}
}

// refusedAfterwards: no arrow is taken twice, and what is unknown stays so.
func (w *world) refusedAfterwards(returned, sold string) {
	w.t.Helper()
	if r := w.op("POST", "/api/v1/reservations/"+returned+"/confirm", nil); r.status != http.StatusConflict {
		w.t.Errorf("confirm of a returned one: %s", r)
	}
	unknown := inventory.NewOrderID("demo", "nobody")
	if r := w.op("POST", "/api/v1/reservations/"+unknown+"/release", nil); r.status != http.StatusNotFound {
		w.t.Errorf("release of an unknown one: %s", r)
	}
	other := inventory.NewOrderID("never", "nobody")
	if r := w.op("POST", "/api/v1/reservations/"+other+"/release", nil); r.status != http.StatusNotFound {
		w.t.Errorf("release of an unknown sale's: %s", r)
	}
	if r := w.op("GET", "/api/v1/reservations/"+sold, nil); r.json()["state"] != "confirmed" {
		w.t.Errorf("the sold one: %s", r)
	}
}

func TestStock_AFileAsArchiveIsForOneHost(t *testing.T) {
	n := redistest.Single(t)
	c := onNode(t, n)
	c.Archive.URL = "sqlite:" + filepath.Join(t.TempDir(), "sales.db")
	heard := func(host string) {
		t.Helper()
		noErr(t, n.Client(t).HSet(t.Context(), "weir:{sales}:replicas", host+"-1a2b3c4d", time.Now().UnixMilli()).Err())
	}
	heard("other-host")
	refused(t, c, "archive.url (sqlite:", "a replica runs on another host (other-host)", "right is a PostgreSQL")
	noErr(t, n.Client(t).Del(t.Context(), "weir:{sales}:replicas").Err())
	heard(hostOf(replicaName()))
	boot(t, c).sells("alice")
	c.Archive.URL = "sqlite:" + filepath.Join(t.TempDir(), "no", "such", "folder", "sales.db")
	refused(t, c, "archive.url (sqlite:")
}

func TestStock_AnArchiveThatLetsNobodyInSaysWhereItsPasswordComesFrom(t *testing.T) {
	at, err := url.Parse(pgtest.Start(t, os.Getenv("WEIR_REQUIRE_REAL") != "").NewDatabase(t))
	noErr(t, err)
	q := at.Query()
	q.Set("user", "nobody-knows-me")
	at.RawQuery = q.Encode()
	c := onNode(t, redistest.Single(t))
	c.Archive.URL = at.String()
	refused(t, c, "archive.url (postgres:", "login was refused", "archive.password_file", "WEIR_ARCHIVE_PASSWORD")
	at.Path = ""
	c.Archive.URL = at.String()
	if faults := c.Validate(); len(faults) != 1 || !strings.Contains(faults[0].Text, "names no database") {
		t.Errorf("%v", faults)
	}
}
