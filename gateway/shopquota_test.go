package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/httpsig"
	"weir/internal/sampleshop"
	"weir/inventory"
)

// quotaOf is the quota of the shop at an address.
func quotaOf(t *testing.T, at string, change func(*UpstreamConfig)) *ShopQuota {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	cfg := UpstreamConfig{
		URL: u, Timeout: 2 * time.Second, ConnectTimeout: time.Second, IdleTimeout: time.Second, MaxConnections: 8, ResponseLimit: 1 << 20,
		Quota: "/quotas/{item}/{sale}?by=weir", KeyID: "shop",
	}
	if change != nil {
		change(&cfg)
	}
	return NewShopQuota(cfg, ordersKey, time.Now)
}

func askedFor(units, unsold, sold int64) inventory.QuotaAsk {
	return inventory.QuotaAsk{Sale: "demo", Item: "a-1.b_2", Units: units, Unsold: unsold, Sold: sold, Step: 7}
}

func TestShopQuotaIsASignedPutWithAbsoluteNumbers(t *testing.T) {
	var asked []string
	at := shopSaying(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys := func(id string) ([]byte, bool) { return ordersKey, id == "shop" }
		if err := httpsig.VerifyRequest(keys, time.Now(), time.Minute, r, body); err != nil {
			t.Error(err)
		}
		asked = append(asked, fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Weir-Sale"), " ", r.Header.Get("Weir-Item"), " ", r.Header.Get("Content-Type"), " ", string(body)))
		w.WriteHeader([]int{200, 201, 204}[len(asked)-1])
	})
	q := quotaOf(t, at, nil)
	for _, err := range []error{
		q.Freeze(t.Context(), askedFor(12, 0, 0)), q.Thaw(t.Context(), askedFor(0, 11, 1)), q.Thaw(t.Context(), askedFor(0, 0, 0)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	head := "PUT /quotas/a-1.b_2/demo?by=weir demo a-1.b_2 application/json "
	for i, want := range []string{`{"units":12,"step":7}`, `{"unsold":11,"sold":1,"step":7}`, `{"unsold":0,"sold":0,"step":7}`} {
		if i >= len(asked) || asked[i] != head+want {
			t.Errorf("asked %q, want %q", asked, head+want)
		}
	}
}

func TestShopQuotaTellsANoFromNotKnowing(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		refused string // part of the text; "" = nobody knows
	}{
		{404, "no item 1", "(404): no item 1"}, {409, "", "(409): it does not say why"}, {410, " gone\n", "(410): gone"},
		{422, "only\x1b[2J 5\r\n\tleft", "(422): only [2J 5 left"},
		{422, strings.Repeat("x", 511) + "é and more", strings.Repeat("x", 511)},
		{422, "a\xff\xfeb", "(422): ab"},
		{301, "moved", ""}, {400, "bad", ""}, {401, "who", ""}, {402, "pay", ""}, {403, "no", ""}, {408, "late", ""}, {423, "locked", ""},
		{429, "busy", ""}, {500, "broken", ""}, {503, "later", ""},
	} {
		n := 0
		at := shopSaying(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		err := quotaOf(t, at, nil).Freeze(t.Context(), askedFor(1, 0, 0))
		if err == nil || errors.Is(err, inventory.ErrQuotaRefused) != (c.refused != "") || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%d: %v", c.status, err)
			continue
		}
		_, text, _ := strings.Cut(err.Error(), "): ")
		if n != 1 || !utf8.ValidString(text) || len(text) > 600 || strings.ContainsAny(text, "\r\n\t\x1b") {
			t.Errorf("%d: asked %d times, %q", c.status, n, text)
		}
	}
}

// TestShopQuotaOfAShopThatIsAway: refused, silent, or cut off after the act.
func TestShopQuotaOfAShopThatIsAway(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	for name, at := range map[string]string{
		"nobody listens": "http://" + ln.Addr().String(),
		"no answer":      rawShop(t, "", true),
		"hung up":        rawShop(t, "", false),
		"half an answer": rawShop(t, "HTTP/1.1 422 No\r\nContent-Length: 100\r\n\r\nonly 5", false),
		"half a head":    rawShop(t, "HTTP/1.1 2", false),
	} {
		q := quotaOf(t, at, func(c *UpstreamConfig) { c.Timeout = 200 * time.Millisecond })
		begun := time.Now()
		err := q.Thaw(t.Context(), askedFor(0, 1, 1))
		if err == nil || errors.Is(err, inventory.ErrQuotaRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestShopQuotaKeepsToItsDeadline(t *testing.T) {
	at := rawShop(t, "", true)
	q := quotaOf(t, at, func(c *UpstreamConfig) { c.Timeout, c.ConnectTimeout = time.Hour, time.Hour })
	if q.shop.cfg.Timeout != askTimeout || q.shop.cfg.ConnectTimeout != askTimeout {
		t.Errorf("%v to connect, %v in all", q.shop.cfg.ConnectTimeout, q.shop.cfg.Timeout)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	for range 2 { // the second has no time left
		if err := q.Freeze(ctx, askedFor(1, 0, 0)); err == nil || errors.Is(err, inventory.ErrQuotaRefused) {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > askTimeout {
		t.Errorf("took %v", took)
	}
}

func TestShopQuotaUnderstandsTheSampleShop(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	shop, err := sampleshop.New(sampleshop.Options{
		Redis: rdb, SigningKey: ordersKey, KeyID: "shop", SessionKey: []byte("s"), Items: []sampleshop.Item{{ID: "a-1.b_2"}},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(shop.Handler())
	t.Cleanup(srv.Close)
	q := quotaOf(t, srv.URL, func(c *UpstreamConfig) { c.Quota = sampleshop.QuotaPath })
	is := func(state string, units, stock int64) {
		t.Helper()
		got, err := shop.Quota(t.Context(), "a-1.b_2", "demo")
		if err != nil || got.State != state || got.Units != units || got.Stock != stock {
			t.Errorf("%+v %v", got, err)
		}
	}
	ask := askedFor(12, 0, 0)
	if err := q.Freeze(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	is("frozen", 12, sampleshop.ProductStock-12)
	ask.Step--
	if err := q.Freeze(t.Context(), ask); !errors.Is(err, inventory.ErrQuotaRefused) || !strings.Contains(err.Error(), "step 7 was here before") {
		t.Error(err)
	}
	ask = askedFor(0, 11, 1)
	if err := q.Thaw(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	is("thawed", 12, sampleshop.ProductStock-1)
	ask.Item = "unknown"
	if err := q.Freeze(t.Context(), ask); !errors.Is(err, inventory.ErrQuotaRefused) || !strings.Contains(err.Error(), "not sold here") {
		t.Error(err)
	}
}
