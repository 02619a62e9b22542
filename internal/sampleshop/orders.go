package sampleshop

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Order is what a buyer bought.
type Order struct {
	ID          string    `json:"id"`
	Reservation string    `json:"reservation"` // weir's reservation id = idempotency key
	Item        string    `json:"item"`
	Sale        string    `json:"sale"`
	Quantity    int64     `json:"quantity"`
	User        string    `json:"user"`
	CreatedAt   time.Time `json:"created_at"`
}

//go:embed lua/place.lua
var placeLua string

// request is one POST /buy after all checks.
type request struct {
	order   Order
	expires time.Time // zero = no deadline
	refuse  int       // status, 0 = sell
	final   bool      // the refusal frees the unit
}

// placed is the shop's decision about a key.
type placed struct {
	status  int // 200 or the status of the refusal
	orderID string
	created bool // false for a repeat
}

// place decides about req in one script; a known key gets the earlier answer.
// An error means that nobody knows whether the order exists.
func (s *Shop) place(ctx context.Context, req request) (placed, error) {
	text, err := json.Marshal(req.order)
	if err != nil {
		return placed{}, fmt.Errorf("encoding order: %w", err)
	}
	var deadline int64
	if !req.expires.IsZero() {
		deadline = req.expires.UnixMilli()
	}
	out, err := redis.NewScript(placeLua).Run(ctx, s.opt.Redis, []string{outcomesKey(), ordersKey(), saleKey(req.order.Sale)},
		req.order.Reservation, req.order.ID, text, deadline, req.refuse, flag(req.final)).Slice()
	if err != nil {
		return placed{}, fmt.Errorf("placing order: %w", err)
	}
	status, ok1 := at[int64](out, 0)
	id, ok2 := at[string](out, 1)
	created, ok3 := at[int64](out, 2)
	if !ok1 || !ok2 || !ok3 {
		return placed{}, fmt.Errorf("placing order: unexpected reply %v", out)
	}
	return placed{status: int(status), orderID: id, created: created == 1}, nil
}

// Orders returns every order, by order id.
func (s *Shop) Orders(ctx context.Context) (map[string]Order, error) {
	all, err := s.opt.Redis.HGetAll(ctx, ordersKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading orders: %w", err)
	}
	out := make(map[string]Order, len(all))
	for id, text := range all {
		var o Order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("reading order %s: %w", id, err)
		}
		out[id] = o
	}
	return out, nil
}

// find returns the order with the given id; false when there is none.
func (s *Shop) find(ctx context.Context, id string) (Order, bool, error) {
	text, err := s.opt.Redis.HGet(ctx, ordersKey(), id).Result()
	if errors.Is(err, redis.Nil) {
		return Order{}, false, nil
	}
	if err != nil {
		return Order{}, false, fmt.Errorf("reading order: %w", err)
	}
	var o Order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return Order{}, false, fmt.Errorf("reading order: %w", err)
	}
	return o, true, nil
}

// orderOf returns the id of a reservation's order, "" when it has none.
func (s *Shop) orderOf(ctx context.Context, reservation string) (string, error) {
	text, err := s.opt.Redis.HGet(ctx, outcomesKey(), reservation).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("looking an order up: %w", err)
	}
	id, ok := strings.CutPrefix(text, "order ")
	if !ok {
		return "", nil
	}
	return id, nil
}

// order is GET /orders/{id}. Another visitor's order looks like none at all.
func (s *Shop) order(w http.ResponseWriter, r *http.Request) {
	o, ok, err := s.find(r.Context(), r.PathValue("id"))
	if err != nil {
		s.broken(w, "showing an order", err)
		return
	}
	if user := s.user(r); !ok || user == "" || user != o.User {
		s.notFound(w)
		return
	}
	s.show(w, http.StatusOK, "order", orderView{Order: o, Item: s.items[o.Item]})
}

// ask is GET /orders?reservation=R, weir's question about an unknown outcome.
// "No" is final once the reservation's Weir-Expires has passed: no order is
// created after that. A cancelled order is none.
func (s *Shop) ask(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("reservation")
	if id == "" || r.Header.Get("Weir-Reservation") != id {
		answerJSON(w, http.StatusBadRequest, map[string]string{"error": "Weir-Reservation and ?reservation= must agree"})
		return
	}
	order, err := s.orderOf(r.Context(), id)
	switch {
	case err != nil:
		s.log.Error("sample shop: looking an order up", "error", err)
		answerJSON(w, http.StatusInternalServerError, map[string]string{"error": "could not look the order up"})
	case order == "":
		answerJSON(w, http.StatusNotFound, map[string]string{"error": "no order for this reservation"})
	default:
		s.tell(w, r, order)
	}
}

// tell answers with one order.
func (s *Shop) tell(w http.ResponseWriter, r *http.Request, id string) {
	all, err := s.listed(r.Context(), []string{id})
	if err != nil || len(all) != 1 {
		s.log.Error("sample shop: telling an order", "order", id, "error", err)
		answerJSON(w, http.StatusInternalServerError, map[string]string{"error": "could not read the order"})
		return
	}
	w.Header().Set("Weir-Order", id)
	answerJSON(w, http.StatusOK, all[0])
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone: nothing to do
}

// at is element i of a script's reply.
func at[T any](reply []any, i int) (v T, ok bool) {
	if i < len(reply) {
		v, ok = reply[i].(T)
	}
	return v, ok
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
