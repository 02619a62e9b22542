package sampleshop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weir/internal/httpsig"
)

// maxBody bounds what the shop reads of a request, in bytes.
const maxBody = 64 << 10

// maxSignatureAge is how old a signed request may be.
const maxSignatureAge = 60 * time.Second

// finalRefusals are the statuses that weir takes for "no order, now or later"
// unless told otherwise.
var finalRefusals = [...]int{http.StatusPaymentRequired, http.StatusGone, http.StatusUnprocessableEntity}

// buy is POST /buy/{item}.
func (s *Shop) buy(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	p := s.arrive(key)
	if p.hangUp == HangUpBefore {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.refuse(w, http.StatusBadRequest)
		return
	}
	s.read(key)
	if !s.verified(w, r, body) {
		return
	}
	if _, ok := s.items[r.PathValue("item")]; !ok { // now and later, so weir need not hold the unit
		s.log.Warn("sample shop: refused a buy", "error", "no such item", "item", r.PathValue("item"))
		s.refuse(w, http.StatusUnprocessableEntity)
		return
	}
	req, err := s.readBuy(r, key)
	if err != nil {
		s.log.Warn("sample shop: refused a buy", "error", err)
		s.refuse(w, http.StatusBadRequest)
		return
	}
	pause(r.Context(), p.slow)
	if p.hangUp == HangUpNoOrder {
		panic(http.ErrAbortHandler)
	}
	if p.settle != "" {
		w.Header().Set("Weir-Settle", p.settle)
	}
	req.refuse = p.refuse
	req.final = slices.Contains(finalRefusals[:], p.refuse) || p.settle == "release"
	s.settle(w, r, req, p)
}

// settle places the order and answers.
func (s *Shop) settle(w http.ResponseWriter, r *http.Request, req request, p plan) {
	// A shop does not undo its work because the other side hung up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	got, err := s.place(ctx, req)
	if p.hangUp == HangUpAfter {
		panic(http.ErrAbortHandler)
	}
	switch {
	case err != nil:
		s.broken(w, "buying", err)
	case got.status != http.StatusOK:
		s.refuse(w, got.status)
	default:
		w.Header().Set("Weir-Order", got.orderID)
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/orders/"+got.orderID, http.StatusSeeOther)
	}
}

// verified checks weir's signature and answers 401 when it does not hold.
func (s *Shop) verified(w http.ResponseWriter, r *http.Request, body []byte) bool {
	keys := func(id string) ([]byte, bool) { return s.opt.SigningKey, id == s.opt.KeyID }
	err := httpsig.VerifyRequest(keys, s.now(), maxSignatureAge, r, body)
	if err == nil {
		return true
	}
	s.log.Warn("sample shop: signature refused", "path", r.URL.Path, "error", err)
	w.Header().Set("WWW-Authenticate", `Signature realm="sample-shop"`)
	s.refuse(w, http.StatusUnauthorized)
	return false
}

// readBuy reads what weir says about the buy. Only signed headers count.
func (s *Shop) readBuy(r *http.Request, key string) (request, error) {
	item := r.PathValue("item")
	if got := r.Header.Get("Weir-Item"); got != item {
		return request{}, fmt.Errorf("Weir-Item %q is not the item bought", got)
	}
	reservation := r.Header.Get("Weir-Reservation")
	if key == "" || reservation != key {
		return request{}, errors.New("Idempotency-Key and Weir-Reservation must be given and equal")
	}
	quantity, err := strconv.ParseInt(r.Header.Get("Weir-Quantity"), 10, 64)
	if err != nil || quantity < 1 {
		return request{}, errors.New("Weir-Quantity is not a whole number above 0")
	}
	var expires time.Time
	if text := r.Header.Get("Weir-Expires"); text != "" {
		if expires, err = time.Parse(time.RFC3339, text); err != nil {
			return request{}, errors.New("Weir-Expires is not an RFC 3339 time")
		}
	}
	user := r.Header.Get("Weir-User")
	if user == "" { // a route without identity: whoever sits at the browser
		user = s.user(r)
	}
	return request{expires: expires, order: Order{
		ID: randomID(), Reservation: reservation, Item: item, Sale: r.Header.Get("Weir-Sale"),
		Quantity: quantity, User: user, CreatedAt: s.now().UTC(),
	}}, nil
}

// stopping carries the context that ends when Serve is to stop.
type stopping struct{}

// pause waits d, or until the shop stops. That the caller hung up does not cut
// it short: a slow shop is slow whether or not anybody waits.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	var stop <-chan struct{} // nil without Serve: blocks
	if c, ok := ctx.Value(stopping{}).(context.Context); ok {
		stop = c.Done()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
