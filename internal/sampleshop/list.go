package sampleshop

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// States of an order. Cancelled is for good.
const (
	Placed    = "placed"
	Paid      = "paid"
	Cancelled = "cancelled"
)

// listPage is how many orders one answer lists.
const listPage = 200

// ErrNoOrder: there is no such order, or it is cancelled already.
var ErrNoOrder = errors.New("sample shop: no such order")

//go:embed lua/mark.lua
var markLua string

// Mark sets an order to Paid or Cancelled; asking twice changes nothing.
// ErrNoOrder when there is none, or a cancelled one is to be paid.
func (s *Shop) Mark(ctx context.Context, order, state string) error {
	if state != Paid && state != Cancelled {
		return fmt.Errorf("sample shop: state %q is neither %s nor %s", state, Paid, Cancelled)
	}
	n, err := redis.NewScript(markLua).Run(ctx, s.opt.Redis, []string{outcomesKey(), ordersKey(), statesKey()}, order, state).Int()
	switch {
	case err != nil:
		return fmt.Errorf("marking order %s: %w", order, err)
	case n != 1:
		return fmt.Errorf("marking order %s as %s: %w", order, state, ErrNoOrder)
	}
	return nil
}

// setOrder is POST /_switches/orders: {"order", "state"}.
func (s *Shop) setOrder(w http.ResponseWriter, r *http.Request) {
	var in struct{ Order, State string }
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	if err == nil {
		err = s.Mark(r.Context(), in.Order, in.State)
	}
	switch {
	case errors.Is(err, ErrNoOrder):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// listedOrder is an order as weir reads it.
type listedOrder struct {
	Reservation string `json:"reservation"`
	Order       string `json:"order"`
	User        string `json:"user"`
	Quantity    int64  `json:"quantity"`
	State       string `json:"state"`
}

// questions are weir's: about one reservation, or about all orders of a sale.
func (s *Shop) questions(w http.ResponseWriter, r *http.Request) {
	if !s.verified(w, r, nil) {
		return
	}
	if r.URL.Query().Has("sale") {
		s.list(w, r)
		return
	}
	s.ask(w, r)
}

// list is GET /orders?sale=S: the orders of a sale, the oldest first, cancelled
// ones too. The Link header leads to the next page; new orders come at the end,
// so none is left out while pages are turned.
func (s *Shop) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	sale, after := query.Get("sale"), 0
	if sale == "" || r.Header.Get("Weir-Sale") != sale {
		answerJSON(w, http.StatusBadRequest, map[string]string{"error": "Weir-Sale and ?sale= must agree"})
		return
	}
	if text := query.Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 || after > 1<<40 {
			answerJSON(w, http.StatusBadRequest, map[string]string{"error": "after is no page of this list"})
			return
		}
	}
	ids, err := s.opt.Redis.LRange(r.Context(), saleKey(sale), int64(after), int64(after+listPage)).Result() // one more: is there a next page?
	orders := []listedOrder{}
	if err == nil {
		orders, err = s.listed(r.Context(), ids[:min(len(ids), listPage)])
	}
	if err != nil {
		s.log.Error("sample shop: listing orders", "sale", sale, "error", err)
		answerJSON(w, http.StatusInternalServerError, map[string]string{"error": "could not list the orders"})
		return
	}
	if len(ids) > listPage {
		next := url.Values{"sale": {sale}, "after": {strconv.Itoa(after + listPage)}}
		w.Header().Set("Link", "</orders?"+next.Encode()+`>; rel="next"`)
	}
	answerJSON(w, http.StatusOK, orders)
}

// listed reads orders with their states.
func (s *Shop) listed(ctx context.Context, ids []string) ([]listedOrder, error) {
	orders := make([]listedOrder, 0, len(ids))
	if len(ids) == 0 {
		return orders, nil
	}
	texts, err := s.opt.Redis.HMGet(ctx, ordersKey(), ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("reading orders: %w", err)
	}
	states, err := s.opt.Redis.HMGet(ctx, statesKey(), ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("reading states of orders: %w", err)
	}
	for i, id := range ids {
		text, _ := texts[i].(string)
		var o Order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("reading order %s: %w", id, err)
		}
		state, ok := states[i].(string)
		if !ok {
			state = Placed
		}
		orders = append(orders, listedOrder{o.Reservation, id, o.User, o.Quantity, state})
	}
	return orders, nil
}
