package sampleshop

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// QuotaPath is where weir sets product stock aside, as upstream.quota spells it.
const QuotaPath = "/quotas/{item}/{sale}"

// ProductStock is how many units of an item the shop has to begin with.
const ProductStock = 1_000_000

const (
	// maxQuotas bounds the sales whose quota is remembered.
	maxQuotas = 4096
	maxUnits  = 1 << 50
)

// Quota is what is set aside for a sale, and what of the item is not.
type Quota struct {
	Item   string `json:"item"`
	Sale   string `json:"sale"`
	Stock  int64  `json:"stock"`  // of the item, for everybody
	State  string `json:"state"`  // "none", "frozen" or "thawed"
	Units  int64  `json:"units"`  // frozen, or once were
	Unsold int64  `json:"unsold"` // of them went back
	Step   int64  `json:"step"`   // of the last question; older ones are refused
}

var (
	//go:embed lua/quota.lua
	quotaLua string

	quotaForm = regexp.MustCompile(`^(frozen|thawed) (\d+) (\d+) (\d+) (.+)$`)
)

func (s *Shop) quotaRoutes(mux *http.ServeMux) {
	mux.HandleFunc("PUT "+QuotaPath, s.putQuota)
	mux.HandleFunc("GET "+QuotaPath, s.showQuota)
}

// quotaAsk is a PUT: units freeze; unsold and sold end the freeze.
type quotaAsk struct {
	Units  *int64 `json:"units"`
	Unsold *int64 `json:"unsold"`
	Sold   *int64 `json:"sold"`
	Step   int64  `json:"step"`
}

func readQuotaAsk(body []byte) (quotaAsk, error) {
	var ask quotaAsk
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		return ask, fmt.Errorf("the body: %w", err)
	}
	freeze, thaw := ask.Units != nil, ask.Unsold != nil && ask.Sold != nil
	if freeze == thaw || freeze && (ask.Unsold != nil || ask.Sold != nil) {
		return ask, errors.New(`the body is neither {"units","step"} nor {"unsold","sold","step"}`)
	}
	for _, n := range []*int64{ask.Units, ask.Unsold, ask.Sold, &ask.Step} {
		if n != nil && (*n < 0 || *n > maxUnits) {
			return ask, fmt.Errorf("%d is not from 0 to %d", *n, int64(maxUnits))
		}
	}
	if ask.Step == 0 {
		return ask, errors.New("step is missing")
	}
	return ask, nil
}

// putQuota is PUT /quotas/{item}/{sale}.
func (s *Shop) putQuota(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	item, sale, ok := s.quotaOf(w, r, body)
	if !ok {
		return
	}
	ask, err := readQuotaAsk(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	refusal, status, err := s.setQuota(r.Context(), item, sale, ask)
	switch {
	case err != nil:
		s.log.Error("sample shop: setting a quota", "item", item, "sale", sale, "error", err)
		http.Error(w, "the quota could not be set", http.StatusInternalServerError)
	case refusal != "":
		http.Error(w, refusal, status)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// quotaOf is whom a question is about: it must be weir's, about an item of the shop.
func (s *Shop) quotaOf(w http.ResponseWriter, r *http.Request, body []byte) (item, sale string, ok bool) {
	if !s.verified(w, r, body) {
		return "", "", false
	}
	item, sale = r.PathValue("item"), r.PathValue("sale")
	if !itemID.MatchString(sale) || r.Header.Get("Weir-Item") != item || r.Header.Get("Weir-Sale") != sale {
		http.Error(w, "Weir-Item and Weir-Sale must agree with the path", http.StatusBadRequest)
		return "", "", false
	}
	if _, known := s.items[item]; !known {
		http.Error(w, "item "+item+" is not sold here", http.StatusNotFound)
		return "", "", false
	}
	return item, sale, true
}

// setQuota does what was asked, in one script, or gives the sentence and status
// of a refusal, which changes nothing. With an error nobody knows.
func (s *Shop) setQuota(ctx context.Context, item, sale string, ask quotaAsk) (refusal string, status int, err error) {
	state, units := "frozen", ask.Units
	if units == nil {
		state, units = "thawed", ask.Unsold
	}
	out, err := redis.NewScript(quotaLua).Run(ctx, s.opt.Redis, []string{stockKey(), quotasKey()},
		sale, item, state, *units, ask.Step, ProductStock, maxQuotas).Slice()
	if err != nil {
		return "", 0, fmt.Errorf("setting a quota: %w", err)
	}
	code, ok1 := at[int64](out, 0)
	text, ok2 := at[string](out, 1)
	switch {
	case !ok1 || !ok2:
		return "", 0, fmt.Errorf("setting a quota: unexpected reply %v", out)
	case code == 0:
		return "step " + text + " was here before this one", http.StatusConflict, nil
	case code == -1:
		return "units of item " + text + " are set aside for this sale", http.StatusConflict, nil
	case code == -2:
		return "only " + text + " of item " + item + " are left", http.StatusUnprocessableEntity, nil
	case code == -3:
		return "stock is set aside for " + text + " sales, that is the most", http.StatusUnprocessableEntity, nil
	}
	return "", 0, nil
}

// showQuota is GET /quotas/{item}/{sale}: Quota as JSON.
func (s *Shop) showQuota(w http.ResponseWriter, r *http.Request) {
	item, sale, ok := s.quotaOf(w, r, nil)
	if !ok {
		return
	}
	q, err := s.Quota(r.Context(), item, sale)
	if err != nil {
		s.log.Error("sample shop: showing a quota", "item", item, "sale", sale, "error", err)
		http.Error(w, "the quota could not be read", http.StatusInternalServerError)
		return
	}
	answerJSON(w, http.StatusOK, q)
}

// Quota reads what of an item is set aside for a sale.
func (s *Shop) Quota(ctx context.Context, item, sale string) (Quota, error) {
	q := Quota{Item: item, Sale: sale, Stock: ProductStock, State: "none"}
	var stock, text *redis.StringCmd
	_, _ = s.opt.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error { // both of one moment; each has its own error
		stock, text = p.HGet(ctx, stockKey(), item), p.HGet(ctx, quotasKey(), sale)
		return nil
	})
	for _, err := range []error{stock.Err(), text.Err()} {
		if err != nil && !errors.Is(err, redis.Nil) {
			return q, fmt.Errorf("reading a quota: %w", err)
		}
	}
	if stock.Err() == nil {
		n, err := stock.Int64()
		if err != nil {
			return q, fmt.Errorf("reading a product stock: %w", err)
		}
		q.Stock = n
	}
	if text.Err() != nil {
		return q, nil
	}
	return q, q.read(text.Val())
}

// read takes over what lua/quota.lua wrote, if it is of this item.
func (q *Quota) read(text string) (err error) {
	f := quotaForm.FindStringSubmatch(text)
	if f == nil {
		return fmt.Errorf("reading a quota: %q is none", text)
	}
	if f[5] != q.Item {
		return nil
	}
	q.State = f[1]
	for i, to := range []*int64{&q.Units, &q.Unsold, &q.Step} {
		if *to, err = strconv.ParseInt(f[2+i], 10, 64); err != nil {
			return fmt.Errorf("reading a quota: %w", err)
		}
	}
	return nil
}
