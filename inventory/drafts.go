package inventory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxDrafts is how many drafts are kept.
const MaxDrafts = 10_000

var (
	// ErrSaleExists: a draft of that id, or a preheated sale, is there already.
	ErrSaleExists = errors.New("sale exists")
	// ErrPlanChanged: the plan is not the one that was named; the present one is returned beside it.
	ErrPlanChanged = errors.New("plan has changed")
	// ErrTooManyDrafts: MaxDrafts are kept already.
	ErrTooManyDrafts = errors.New("too many drafts")
)

// AnyPlan matches every plan of a sale that exists.
const AnyPlan = "*"

// Drafts are plans on which people work: they lie in Redis beside the records
// of the preheated sales and touch no stock. A draft takes effect when its plan
// is given to Store.Preheat, and is spent then. Every change compares what it
// replaces, in one script, so no edit is lost under another.
//
// It is not for hot paths: each call reads Redis.
type Drafts struct {
	store     *Store
	put, drop script
}

// NewDrafts keeps drafts in the Redis of s. It asks nothing.
func NewDrafts(s *Store) (*Drafts, error) {
	d := &Drafts{store: s}
	for name, to := range map[string]*script{"draft_put": &d.put, "draft_drop": &d.drop} {
		body, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("reading scripts: %w", err)
		}
		*to = script{name: name, src: string(body), sha: redis.NewScript(string(body)).Hash()}
	}
	return d, nil
}

// Draft is the plan of a sale that is edited next.
type Draft struct {
	Plan Sale
	// Preheated is the version that is preheated, 0 = none.
	Preheated int64
	// Waiting: Plan is a draft, newer than what is preheated. Otherwise Plan is
	// the preheated one.
	Waiting bool

	text string // as stored
}

// Tag names the plan: see PlanTag.
func (d Draft) Tag() string { return PlanTag(d.Plan) }

// PlanTag names a plan with its version: equal plans have equal tags, another
// plan or version of the sale has another. It is of [a-z0-9-].
func PlanTag(plan Sale) string {
	sum := sha256.Sum256([]byte(draftText(plan)))
	return "v" + num(plan.Version) + "-" + hex.EncodeToString(sum[:8])
}

// draftText is a plan as it is stored: in UTC and whole milliseconds.
func draftText(plan Sale) string {
	plan.EndAt = msTime(plan.EndAt.UnixMilli())
	if !plan.StartAt.IsZero() {
		plan.StartAt = msTime(plan.StartAt.UnixMilli())
	} else {
		plan.StartAt = time.Time{}
	}
	b, err := json.Marshal(plan)
	if err != nil {
		panic(err) // a struct of plain fields; times are in the years that were validated
	}
	return string(b)
}

func parseDraft(sale, text string) (Sale, error) {
	var plan Sale
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return plan, fmt.Errorf("draft of sale %s: %w", sale, err)
	}
	return plan, nil
}

// plans is what Redis holds of one sale's plans, as it was read.
type plans struct {
	draft, record string // texts, "" = none
	preheated     record
	current       Draft
}

func (p plans) known() bool { return p.draft != "" || p.record != "" }

// read looks at the draft first: a preheat between the two reads then shows as done.
func (d *Drafts) read(ctx context.Context, sale string) (p plans, err error) {
	var draft, rec *redis.StringCmd
	_, err = d.store.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		draft, rec = pipe.HGet(ctx, draftsKey(), sale), pipe.HGet(ctx, salesKey(), sale)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return p, fmt.Errorf("reading sale %s: %w", sale, mapRead(err))
	}
	for _, cmd := range []*redis.StringCmd{draft, rec} {
		if e := cmd.Err(); e != nil && !errors.Is(e, redis.Nil) {
			return p, fmt.Errorf("reading sale %s: %w", sale, mapRead(e))
		}
	}
	p.draft, p.record = draft.Val(), rec.Val()
	return p, p.parse(sale)
}

// parse finds the plan in force: the draft, unless it is preheated already.
func (p *plans) parse(sale string) (err error) {
	if p.record != "" {
		if p.preheated, err = parseMeta(sale, p.record); err != nil {
			return err
		}
		p.current = Draft{Plan: p.preheated.Plan, Preheated: p.preheated.Plan.Version}
	}
	if p.draft == "" {
		return nil
	}
	plan, err := parseDraft(sale, p.draft)
	if err == nil && plan.Version > p.current.Preheated {
		p.current.Plan, p.current.Waiting, p.current.text = plan, true, p.draft
	}
	return err
}

// Find is the plan of a sale that is edited next, or ErrUnknownSale.
func (d *Drafts) Find(ctx context.Context, sale string) (Draft, error) {
	p, err := d.read(ctx, sale)
	if err == nil && !p.known() {
		err = fmt.Errorf("sale %s: %w", sale, ErrUnknownSale)
	}
	return p.current, err
}

// List gives all drafts by id, those that are preheated by now among them.
func (d *Drafts) List(ctx context.Context) ([]Sale, error) {
	byID := map[string]Sale{} // HSCAN may give a field twice
	for cursor := uint64(0); ; {
		kv, next, err := d.store.redis.HScan(ctx, draftsKey(), cursor, "", scanCount).Result()
		if err != nil {
			return nil, fmt.Errorf("reading drafts: %w", mapRead(err))
		}
		for i := 0; i+1 < len(kv); i += 2 {
			if byID[kv[i]], err = parseDraft(kv[i], kv[i+1]); err != nil {
				return nil, err
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	all := slices.Collect(maps.Values(byID))
	slices.SortFunc(all, func(a, b Sale) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
