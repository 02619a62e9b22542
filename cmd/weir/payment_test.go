package main

import (
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// paidLater is a sale of one unit whose orders the shop confirms when paid.
func paidLater(c *Config) {
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = time.Second, time.Second
	s := &c.Sales[0]
	s.Total, s.Settle, s.Expiry, s.Hold = 1, "payment", "free", 4*time.Second
}

// ordered buys and gives the reservation's id; the unit waits for payment.
func ordered(t *testing.T, w *world, p *person) string {
	t.Helper()
	r := p.buy(p.mustPass("demo"))
	id := r.header.Get("Weir-Reservation")
	if r.status != http.StatusSeeOther || id == "" {
		t.Fatalf("order: %s %v", r, r.header)
	}
	if l := w.invariant("demo"); l.Reserved != 1 || l.Confirmed != 0 {
		t.Fatalf("the unit waits for payment: %+v", l)
	}
	return id
}

func TestAPaymentConfirmsTheReservation(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		c := quiet(t, mode)
		paidLater(&c)
		w := boot(t, c)
		id := ordered(t, w, w.person("alice"))
		if r := buyAs(w, "bob"); r.code() != "none_free_now" {
			t.Fatalf("held by somebody is not sold out: %s", r)
		}
		paid := w.op("POST", "/api/v1/reservations/"+id+"/confirm", map[string]string{"order": "A-1"})
		if paid.status != http.StatusOK || paid.json()["state"] != "confirmed" {
			t.Fatalf("paid: %s", paid)
		}
		if again := w.op("POST", "/api/v1/reservations/"+id+"/confirm", map[string]string{"order": "A-1"}); again.status != http.StatusOK {
			t.Fatalf("asking twice gets the earlier answer: %s", again)
		}
		if l := w.invariant("demo"); l.Confirmed != 1 {
			t.Fatalf("sold: %+v", l)
		}
		if r := buyAs(w, "bob"); r.code() != "sold_out" {
			t.Fatalf("now it is sold out: %s", r)
		}
	})
}

func TestAnUnpaidUnitIsSoldToSomeoneElseAndALatePaymentIsARefund(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		c := quiet(t, mode)
		paidLater(&c)
		w := boot(t, c)
		late := ordered(t, w, w.person("alice"))
		bob := w.person("bob")
		pass := bob.mustPass("demo")
		eventually(t, 15*time.Second, "the unpaid unit is free again", func() bool { return bob.buy(pass).status == http.StatusSeeOther })
		r := w.op("POST", "/api/v1/reservations/"+late+"/confirm", map[string]string{"order": "A-1"})
		if r.status != http.StatusOK || r.json()["state"] != "refund_due" {
			t.Fatalf("a payment after the unit was sold again is a refund: %s", r)
		}
		w.invariant("demo")
	})
}

// TestARepeatThatCannotBeSentFreesNothing: the first attempt reached the shop,
// whose answer was lost; the second found nobody. Only the shop's word may
// free the unit then.
func TestARepeatThatCannotBeSentFreesNothing(t *testing.T) {
	c := quiet(t, "memory")
	gate := newGate(t)
	c.Upstream.URL = gate.url.String()
	c.Upstream.Timeout, c.Upstream.ConnectTimeout = 300*time.Millisecond, 300*time.Millisecond
	c.Sales[0].Total = 10
	w := boot(t, c)
	alice := w.person("alice")
	pass := alice.mustPass("demo")
	if r := alice.buy(pass); r.code() != "upstream_unknown" {
		t.Fatalf("read, then hung up: %s", r)
	}
	gate.close()
	eventually(t, 10*time.Second, "a second attempt runs into the closed port", func() bool {
		r := alice.buy(pass)
		if r.code() == "upstream_failed" {
			t.Fatalf("the shop may have the order: %s", r)
		}
		return r.code() == "upstream_unknown"
	})
	if l := w.invariant("demo"); l.Free != 9 || l.Reserved != 1 {
		t.Fatalf("the unit stays reserved: %+v", l)
	}
}

// gate is a shop that reads and hangs up.
type gate struct {
	url *url.URL
	ln  net.Listener
}

func newGate(t *testing.T) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			var head [1]byte
			conn.Read(head[:])
			conn.Close()
		}
	}()
	return &gate{&url.URL{Scheme: "http", Host: ln.Addr().String()}, ln}
}

func (g *gate) close() { g.ln.Close() }
