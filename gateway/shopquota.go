package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/valyala/fasthttp"

	"weir/inventory"
)

// ShopQuota freezes a part of the shop's product stock for a sale, see
// inventory.Quota. It has a client of its own, so it is there before the gateway
// is and does not wait behind its orders.
//
// Both acts are a PUT to UpstreamConfig.Quota with a JSON body, signed like the
// lookup, with Weir-Sale and Weir-Item:
//
//	{"units", "step"}           so many are to be frozen for the sale
//	{"unsold", "sold", "step"}  the freeze is over: unsold go back, sold are gone
//
// 2xx is done. 404, 409, 410 and 422 are the shop's definite no, with a text that
// says why. Whatever else, nobody knows: it is asked again. One method for both,
// since what lies between may drop the body of a DELETE.
type ShopQuota struct{ shop *shop }

// quotaText bounds what is kept of the shop's reason, in bytes.
const quotaText = 512

// NewShopQuota asks the shop of cfg, whose Quota must not be "", with the key
// that signs orders. It does no I/O.
func NewShopQuota(cfg UpstreamConfig, key []byte, now func() time.Time) *ShopQuota {
	// Connecting too ends with the question.
	cfg.Timeout = min(cfg.Timeout, askTimeout)
	cfg.ConnectTimeout = min(cfg.ConnectTimeout, askTimeout)
	return &ShopQuota{shop: newShop(cfg, key, now)}
}

// Freeze implements inventory.Quota.
func (q *ShopQuota) Freeze(ctx context.Context, ask inventory.QuotaAsk) error {
	return q.put(ctx, ask, struct {
		Units int64 `json:"units"`
		Step  int64 `json:"step"`
	}{ask.Units, ask.Step})
}

// Thaw implements inventory.Quota.
func (q *ShopQuota) Thaw(ctx context.Context, ask inventory.QuotaAsk) error {
	return q.put(ctx, ask, struct {
		Unsold int64 `json:"unsold"`
		Sold   int64 `json:"sold"`
		Step   int64 `json:"step"`
	}{ask.Unsold, ask.Sold, ask.Step})
}

func (q *ShopQuota) put(ctx context.Context, ask inventory.QuotaAsk, body any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // a struct of numbers
	}
	within := q.shop.cfg.Timeout
	if until, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(until))
	}
	uri := strings.NewReplacer("{item}", url.PathEscape(ask.Item), "{sale}", url.PathEscape(ask.Sale)).Replace(q.shop.cfg.Quota)
	h := map[string]string{"weir-sale": ask.Sale, "weir-item": ask.Item}
	if err := q.shop.ask(fasthttp.MethodPut, uri, text, h, within, quotaAnswer); err != nil {
		return fmt.Errorf("asking the shop for a quota (upstream.quota): %w", err)
	}
	return nil
}

// quotaAnswer is nil, an ErrQuotaRefused, or says that nobody knows.
func quotaAnswer(resp *fasthttp.Response) error {
	switch code := resp.StatusCode(); {
	case code >= 200 && code <= 299:
		return nil
	case code == fasthttp.StatusNotFound, code == fasthttp.StatusConflict, code == fasthttp.StatusGone, code == fasthttp.StatusUnprocessableEntity:
		return fmt.Errorf("%w (%d): %s", inventory.ErrQuotaRefused, code, reasonOf(resp))
	default:
		return fmt.Errorf("it answered %d", code)
	}
}

// reasonOf is the shop's text on one line: it goes to logs and terminals.
func reasonOf(resp *fasthttp.Response) string {
	body := resp.Body()
	if len(resp.Header.ContentEncoding()) > 0 {
		body = nil // packed, unasked
	}
	text := strings.ToValidUTF8(string(body[:min(len(body), quotaText)]), "")
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	text = strings.TrimSpace(strings.Join(strings.FieldsFunc(text, unprintable), " "))
	if text == "" {
		return "it does not say why"
	}
	return text
}
