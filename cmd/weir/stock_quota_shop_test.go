package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/sampleshop"
	"weir/inventory"
)

// freezing is quiet with a shop that is asked for quotas. The plan of the file
// waits for a hand.
func freezing(t *testing.T, mode string) Config {
	c := quiet(t, mode)
	c.Upstream.Quota = sampleshop.QuotaPath
	c.Sales[0].Preheat = "by_hand"
	return c
}

// shopHolds waits for what the shop holds back of item 1001 for a sale, and has left.
func shopHolds(t *testing.T, shop *sampleshop.Shop, sale, state string, units, stock int64) sampleshop.Quota {
	t.Helper()
	var q sampleshop.Quota
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the shop has %+v %v", q, err)
		}
	}()
	eventually(t, 60*time.Second, fmt.Sprintf("%s %d units, %d left", state, units, stock), func() bool {
		q, err = shop.Quota(t.Context(), "1001", sale)
		return err == nil && q.State == state && q.Units == units && q.Stock == stock
	})
	return q
}

// quota is a sale's as the private API tells it; the zero one when it tells none.
func (w *world) quota(sale string) (q inventory.QuotaState) {
	w.t.Helper()
	r := w.op("GET", "/api/v1/sales/"+sale, nil)
	var s struct{ Quota *inventory.QuotaState }
	if err := json.Unmarshal(r.body, &s); err != nil || r.status != http.StatusOK {
		w.t.Fatalf("%v %s", err, r)
	}
	if s.Quota != nil {
		q = *s.Quota
	}
	return q
}

// plans writes the plan of a sale of item 1001 that starts in an hour, by PUT
// once it is there.
func (w *world) plans(total int64, start time.Time) {
	w.t.Helper()
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	plan := map[string]any{
		"id": "later", "item": "1001", "starts_at": stamp(start), "ends_at": stamp(start.Add(time.Hour)), "total": total, "safety_stock": 5,
		"buyer_limit": 1, "max_quantity": 1, "hold": "1m", "expiry": "ask", "settle": "accept",
	}
	r := w.op("POST", "/api/v1/sales", plan)
	if r.code() == "sale_exists" {
		p := &person{w: &world{t: w.t, url: w.admin}, http: testClient, addr: "127.0.0.1"}
		r = p.must("PUT", "/api/v1/sales/later", plan, withHeader("Authorization", "Bearer "+w.token()), withHeader("If-Match", "*"))
	}
	if r.status > 299 {
		w.t.Fatalf("the plan: %s", r)
	}
}

// preheats wants this status and, of a refusal, its code and words of its detail.
func (w *world) preheats(sale string, status int, code string, words ...string) {
	w.t.Helper()
	r := w.op("POST", "/api/v1/sales/"+sale+"/preheat", nil)
	if r.status != status || r.code() != code {
		w.t.Fatalf("want %d %s, got %s", status, code, r)
	}
	for _, word := range words {
		if !strings.Contains(string(r.body), word) {
			w.t.Errorf("want %q in %s", word, r)
		}
	}
}

// says checks what weir sale show prints.
func (w *world) says(sale string, words ...string) {
	w.t.Helper()
	code, out := w.weirSays("sale", "show", sale)
	for _, word := range words {
		if code != exitOK || !strings.Contains(out, word) {
			w.t.Errorf("sale show: %d, want %q\n%s", code, word, out)
		}
	}
}

// moodyShop is a shop of its own, in front of which a test stands.
type moodyShop struct {
	*sampleshop.Shop
	url string

	mu   sync.Mutex
	mood func(w http.ResponseWriter, r *http.Request, shop http.Handler) // nil = none
	puts int                                                             // questions for a quota
}

func newMoodyShop(t *testing.T) *moodyShop {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	key := deriveKey([]byte(testEnv(Config{})("WEIR_SECRET")), labelShop)
	shop, err := sampleshop.New(sampleshop.Options{
		Redis: rdb, SigningKey: key, KeyID: Default().Upstream.KeyID, SessionKey: []byte("s"), Items: []sampleshop.Item{{ID: "1001"}}, Log: slog.New(slog.DiscardHandler),
	})
	noErr(t, err)
	m := &moodyShop{Shop: shop}
	handler := shop.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		mood := m.mood
		if r.Method == http.MethodPut {
			m.puts++
		}
		m.mu.Unlock()
		if mood != nil && r.Method == http.MethodPut {
			mood(w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *moodyShop) is(mood func(http.ResponseWriter, *http.Request, http.Handler)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
}

func (m *moodyShop) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.puts
}

// silent waits until its caller hangs up, which is noticed once the body is read.
func silent(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// forgetful does what it was asked, and says nothing.
func forgetful(w http.ResponseWriter, r *http.Request, shop http.Handler) {
	shop.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// broken answers 500 and does nothing.
func broken(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.WriteHeader(http.StatusInternalServerError)
}
