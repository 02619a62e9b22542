package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// quotas is the shop's hook and what its states in Redis are kept with.
type quotas struct {
	shop      Quota // nil = nothing is frozen
	look, put script
}

func newQuotas(shop Quota) (*quotas, error) {
	q := &quotas{shop: shop}
	for name, to := range map[string]*script{"quota_look": &q.look, "quota_put": &q.put} {
		body, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("reading scripts: %w", err)
		}
		*to = script{name: name, src: string(body), sha: redis.NewScript(string(body)).Hash()}
	}
	return q, nil
}

// Quotas lists what was frozen, by sale, at most MaxQuotas; also when no hook
// is configured any more. ErrUnavailable.
func (s *Store) Quotas(ctx context.Context) ([]QuotaState, error) {
	texts, err := s.redis.HGetAll(ctx, quotasKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading quotas: %w", mapRead(err))
	}
	all := make([]QuotaState, 0, len(texts))
	for sale, text := range texts {
		q, err := parseQuota(sale, text)
		if err != nil { // one bad quota must not stop the others
			s.log.Error("reading quotas", "error", err)
			continue
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b QuotaState) int { return cmp.Compare(a.Sale, b.Sale) })
	return all, nil
}

// Quota is what is frozen for one sale. ErrUnknownSale when nothing ever was,
// or it was forgotten long after its thaw; ErrUnavailable.
func (s *Store) Quota(ctx context.Context, sale string) (QuotaState, error) {
	h, err := s.lookQuota(ctx, sale)
	if err == nil && h.text == "" {
		err = fmt.Errorf("quota of sale %s: %w", sale, ErrUnknownSale)
	}
	return h.QuotaState, err
}

func parseQuota(sale, text string) (q QuotaState, err error) {
	if err = json.Unmarshal([]byte(text), &q); err != nil {
		err = fmt.Errorf("quota of sale %s: %w", sale, err)
	}
	return q, err
}

// heldQuota is a quota as it was read.
type heldQuota struct {
	QuotaState
	text string // as stored, "" = none
	now  int64  // Redis time of the reading, ms
}

// next is the step of what is asked next. The time in it lets steps grow even
// over a quota that was forgotten.
func (h heldQuota) next() int64 { return max(h.Step+1, h.now) }

func (s *Store) lookQuota(ctx context.Context, sale string) (h heldQuota, err error) {
	v, err := s.run(ctx, &s.quota.look, []string{quotasKey()}, sale)
	if err != nil { // a reading that failed changed nothing
		return h, fmt.Errorf("reading the quota of %s: %w: %v", sale, ErrUnavailable, err)
	}
	f, _ := v.([]any)
	if len(f) != 2 {
		return h, fmt.Errorf("reading the quota of %s: %w: answered %v", sale, ErrUnavailable, v)
	}
	h.text, _ = f[0].(string)
	h.now, _ = f[1].(int64)
	if h.text != "" {
		h.QuotaState, err = parseQuota(sale, h.text)
	}
	return h, err
}

// errQuotaMoved: somebody else acted on it since it was read.
var errQuotaMoved = errors.New("the quota changed meanwhile")

// putQuota replaces what was read, or is errQuotaMoved. A lost answer is looked
// up: a step is written once. Another replica may write the very same text in the
// same millisecond, and it is that one's step then.
func (s *Store) putQuota(ctx context.Context, old heldQuota, q QuotaState) (heldQuota, error) {
	b, err := json.Marshal(q)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	text := string(b)
	lost := false
	for swept := false; ; swept = true {
		code, err := s.runInt(ctx, &s.quota.put, []string{quotasKey()}, q.Sale, old.text, text, MaxQuotas)
		switch {
		case err == nil && code == 0:
			return heldQuota{QuotaState: q, text: text, now: old.now}, nil
		case err == nil && code == 2 && !swept:
			if err := s.sweepQuotas(ctx, old.now); err != nil {
				return old, err
			}
			continue
		case err == nil && code == 2:
			return old, fmt.Errorf("more than %d quotas: %w", MaxQuotas, ErrUnavailable)
		case err != nil && !isUnknown(err):
			return old, err
		}
		lost = lost || err != nil
		h, e := s.lookQuota(ctx, q.Sale)
		switch {
		case e != nil:
			return old, e
		case lost && h.text == text:
			return h, nil
		case err == nil || h.text != old.text:
			return old, fmt.Errorf("sale %s: %w: %w", q.Sale, errQuotaMoved, ErrUnavailable)
		case swept:
			return old, fmt.Errorf("writing the quota of %s: %w: %v", q.Sale, ErrUnavailable, err)
		}
	}
}

// sweepQuotas forgets those that were thawed long ago.
func (s *Store) sweepQuotas(ctx context.Context, now int64) error {
	texts, err := s.redis.HGetAll(ctx, quotasKey()).Result()
	if err != nil {
		return fmt.Errorf("reading quotas: %w", mapRead(err))
	}
	for sale, text := range texts {
		q, err := parseQuota(sale, text)
		if err != nil || q.Stage != QuotaThawed || msTime(now).Sub(q.Since) < quotaKept {
			continue
		}
		if _, err := s.runInt(ctx, &s.quota.put, []string{quotasKey()}, sale, text, "", MaxQuotas); err != nil {
			return err
		}
	}
	return nil
}

// askShop asks once what the stage stands for.
func (s *Store) askShop(ctx context.Context, q QuotaState) error {
	ctx, cancel := context.WithTimeout(ctx, quotaTime)
	defer cancel()
	if q.Stage == QuotaFreezing {
		return s.quota.shop.Freeze(ctx, q.ask())
	}
	return s.quota.shop.Thaw(ctx, q.ask())
}

// answered is the state after the shop answered, or did not.
func (q QuotaState) answered(err error, now int64) QuotaState {
	if err != nil {
		text := err.Error()
		q.Fault, q.Refused = strings.ToValidUTF8(text[:min(len(text), quotaText)], ""), errors.Is(err, ErrQuotaRefused)
		return q
	}
	q.Tries, q.Next, q.Fault, q.Refused, q.Since = 0, time.Time{}, "", false, msTime(now)
	if q.Stage == QuotaFreezing {
		q.Stage = QuotaFrozen
	} else if q.Stage == QuotaThawing {
		q.Stage = QuotaThawed
	}
	return q
}
