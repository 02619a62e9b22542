package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"weir/inventory"
)

// createSale answers POST /api/v1/sales: a draft, which touches no stock.
func (c *Console) createSale(cl *call) (act, error) {
	plan, err := c.readPlan(cl, "")
	cl.target = "sale:" + shorten(plan.ID)
	if err != nil {
		return nil, err
	}
	if err := c.notInFile(plan.ID); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		d, err := c.drafts.Create(ctx, plan)
		if err != nil {
			return nil, standing(err, d)
		}
		r := oneSale(c.showDraft(d), d.Tag())
		r.location = "/api/v1/sales/" + d.Plan.ID
		return r, nil
	}, nil
}

// editSale answers PUT /api/v1/sales/{id}. The version rises by itself; an edit
// of a preheated sale waits, as a draft, for its next preheat.
func (c *Console) editSale(cl *call) (act, error) {
	id := cl.param("id")
	match, err := c.mayEdit(cl, id)
	if err != nil {
		return nil, err
	}
	plan, err := c.readPlan(cl, id)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		d, err := c.drafts.Replace(ctx, plan, match)
		switch {
		case errors.Is(err, inventory.ErrUnknownSale):
			return nil, unknownSale(id)
		case errors.Is(err, inventory.ErrSaleStarted):
			err = refuse(http.StatusConflict, "sale_started", "Sale %q has started, has ended or was cancelled; its plan stays.", id)
		}
		if err != nil {
			return nil, standing(err, d)
		}
		return oneSale(c.showDraft(d), d.Tag()), nil
	}, nil
}

// deleteSale answers DELETE /api/v1/sales/{id}.
func (c *Console) deleteSale(cl *call) (act, error) {
	reason := cl.query("reason")
	if err := note("reason", reason); err != nil {
		return nil, err
	}
	cl.reason = reason
	id := cl.param("id")
	match, err := c.mayEdit(cl, id)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		d, err := c.drafts.Delete(ctx, id, match)
		switch {
		case errors.Is(err, inventory.ErrUnknownSale):
			return nil, unknownSale(id)
		case errors.Is(err, inventory.ErrNotAllowed):
			err = refuse(http.StatusConflict, "sale_preheated", "Sale %q is preheated and is not deleted; cancel ends it.", id)
		}
		if err != nil {
			return nil, standing(err, d)
		}
		return map[string]any{"deleted": true, "sale": showPlan(d.Plan)}, nil
	}, nil
}

// mayEdit says which plans the caller means to change.
func (c *Console) mayEdit(cl *call, id string) ([]string, error) {
	if err := c.notInFile(id); err != nil {
		return nil, err
	}
	return ifMatch(cl)
}

func (c *Console) notInFile(id string) error {
	if _, ok := c.plan(id); ok {
		return refuse(http.StatusConflict, "in_config_file", "Sale %q is planned in the configuration file; change it there.", id)
	}
	return nil
}

// standing puts the ETag of the plan that stands beside a refusal.
func standing(err error, d inventory.Draft) error {
	no := *refusalOf(err)
	if d.Plan.ID != "" {
		no.etag = d.Tag()
		no.extra = map[string]any{"etag": `"` + no.etag + `"`}
	}
	return &no
}

// ifMatch reads If-Match (RFC 9110, 13.1.1): * or a list of ETags, of which a
// weak one never matches. Without it an edit would be a guess.
func ifMatch(cl *call) (tags []string, err error) {
	var lines []string
	for _, line := range cl.http.Request().Header.PeekAll(fiber.HeaderIfMatch) {
		lines = append(lines, string(line))
	}
	text := strings.TrimSpace(strings.Join(lines, ","))
	switch text {
	case "":
		return nil, refuse(http.StatusPreconditionRequired, "precondition_required",
			"If-Match is missing; send the ETag of the plan that you mean to change.")
	case "*":
		return []string{inventory.AnyPlan}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		tag, weak := strings.CutPrefix(part, "W/")
		if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' || tag == `"*"` {
			return nil, badRequest(`Header "If-Match": value %q is neither * nor a list of ETags in quotes.`, shorten(text))
		}
		if !weak {
			tags = append(tags, tag[1:len(tag)-1])
		}
	}
	return slices.Clip(tags), nil
}
