package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	readTimeout   = 10 * time.Second // of a read behind the listener
	changeTimeout = 30 * time.Second // of a change; a preheat is the longest
)

// call is one request on its way. Its texts are copies: fiber's die with the
// handler.
type call struct {
	http   *fiber.Ctx
	ctx    context.Context // deadline of a read
	id     string
	who    bearer
	target string // of a change, for the audit log
	reason string
}

// act makes a change that its route has read and checked.
type act func(context.Context) (any, error)

func (cl *call) query(name string) string { return strings.Clone(cl.http.Query(name)) }

func (cl *call) param(name string) string { return strings.Clone(cl.http.Params(name)) }

// body reads the JSON body; see readJSON. It is read raw: what arrives
// compressed is not unpacked, so the limit of bytes is a limit.
func (cl *call) body(into fields) error {
	return readJSON(cl.http.Get(fiber.HeaderContentType), cl.http.BodyRaw(), into)
}

// handle is the way of every request: admit, answer, write.
func (c *Console) handle(r route) fiber.Handler {
	return func(f *fiber.Ctx) error {
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.within, readTimeout))
		defer cancel()
		cl := &call{http: f, ctx: ctx, id: requestID(f)}
		body, err := c.safely(r, cl)
		if err != nil {
			return c.writeRefusal(f, c.refusal(r, cl, err))
		}
		return c.writeBody(f, r, body)
	}
}

// safely turns a panic into a 500: a fault of the console must not stop the
// gateway beside it.
func (c *Console) safely(r route, cl *call) (body any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic in the console", "panic", p, "path", r.path, "request_id", cl.id, "stack", string(debug.Stack()))
			body, err = nil, refusalOf(errors.New("panic"))
		}
	}()
	err = c.admit(r, cl)
	switch {
	case r.change != nil:
		return c.makeChange(r, cl, err)
	case err != nil:
		return nil, err
	}
	return r.read(c, cl)
}

// refusal is the public form of err; what it hides goes to the log.
func (c *Console) refusal(r route, cl *call, err error) *refusal {
	no := refusalOf(err)
	var own *refusal
	if no.status >= http.StatusInternalServerError && !errors.As(err, &own) {
		c.log.Error("request failed", "method", r.method, "path", r.path, "error", err, "request_id", cl.id)
	}
	return no
}

// admit says whether the caller may use the route and asked in its words.
func (c *Console) admit(r route, cl *call) error {
	if r.roles != nobody {
		who, ok := c.identify(cl.http.Get(fiber.HeaderAuthorization))
		if !ok {
			return refuse(http.StatusUnauthorized, "unauthorized", "A valid bearer token is needed.")
		}
		cl.who = who
		if who.may&r.roles == 0 {
			return refuse(http.StatusForbidden, "forbidden", "Role %s may not do this; %s may.",
				who.role, strings.Join(r.roles.names(), ", "))
		}
	}
	if strings.HasPrefix(r.path, "/api/") {
		return knownQuery(cl.http, r.query)
	}
	return nil
}

// knownQuery refuses a misspelled or repeated parameter: a filter that is
// overlooked lists, or lifts, something else than was asked for.
func knownQuery(f *fiber.Ctx, known []string) error {
	var seen []string
	for key, value := range f.Context().QueryArgs().All() {
		name := string(key)
		switch {
		case !slices.Contains(known, name):
			return badRequest("Parameter %q (value %q) is unknown.", shorten(name), shorten(string(value)))
		case slices.Contains(seen, name):
			return badRequest("Parameter %q (value %q) comes twice.", name, shorten(string(value)))
		}
		seen = append(seen, name)
	}
	return nil
}

// makeChange records and makes a change: read it, record the intent, act,
// record the outcome. Without the record of the intent nothing is done.
func (c *Console) makeChange(r route, cl *call, denied error) (any, error) {
	cl.target = targetOf(cl)
	do, err := act(nil), denied
	if err == nil {
		do, err = r.change(c, cl)
	}
	if err != nil {
		if !c.recordRefusal(r, cl, refusalOf(err)) {
			return nil, errAudit()
		}
		return nil, err
	}
	if c.record(r, cl, outcomeIntended) != nil {
		return nil, errAudit()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.within, changeTimeout))
	defer cancel()
	body, err := do(ctx)
	outcome := outcomeDone
	if err != nil {
		outcome = refusalOf(err).code
	}
	// The change is made: a lost second entry cannot take it back, the intent
	// stands in the log and the failure is logged.
	_ = c.record(r, cl, outcome)
	return body, err
}

// recordRefusal writes a refused change down. Strangers are sampled, or they
// could push the whole history out of the log.
func (c *Console) recordRefusal(r route, cl *call, no *refusal) bool {
	if no.status == http.StatusUnauthorized && !c.strangers.AllowN(c.now(), 1) {
		return true
	}
	return c.record(r, cl, no.code) == nil
}

func (c *Console) record(r route, cl *call, outcome string) error {
	e := AuditEntry{At: c.now().UTC(), Who: cl.who.name, Role: cl.who.role, Action: r.action,
		Target: cl.target, Reason: cl.reason, Outcome: outcome, RequestID: cl.id}
	if e.Who == "" {
		e.Who = "anonymous"
	}
	err := c.audit.write(e)
	if err != nil {
		c.log.Error("audit entry not written", "error", err, "action", e.Action, "target", e.Target,
			"outcome", outcome, "request_id", cl.id)
	}
	return err
}

// targetOf is what the path speaks of; a change may name it better.
func targetOf(cl *call) string {
	id := cl.param("id")
	if id == "" {
		return ""
	}
	kind := "sale:"
	if strings.HasPrefix(cl.http.Path(), "/api/v1/reservations/") {
		kind = "reservation:"
	}
	return kind + shorten(id)
}

// requestID is always our own: it must be unique in the audit log.
func requestID(f *fiber.Ctx) string {
	id, _ := f.Locals(requestIDKey{}).(string)
	if id == "" {
		id = rand.Text()
		f.Locals(requestIDKey{}, id)
	}
	return id
}

type requestIDKey struct{}
