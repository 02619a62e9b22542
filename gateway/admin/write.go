package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"weir/internal/problem"
)

// reply is a body with a status or head of its own.
type reply struct {
	status   int // 0 = the route's
	body     any
	etag     string // as the leaf names it, without quotes
	location string
}

// page is a body that is not JSON.
type page struct {
	contentType string
	text        []byte
	style       string // the source of style that its policy allows
}

// passOn is a body written by a handler of another library.
type passOn fiber.Handler

// writeBody is the one place that writes success.
func (c *Console) writeBody(f *fiber.Ctx, r route, body any) error {
	head(f)
	status := r.status
	if own, ok := body.(reply); ok {
		status, body = cmp.Or(own.status, status), own.body
		setETag(f, own.etag)
		if own.location != "" {
			f.Set(fiber.HeaderLocation, own.location)
		}
	}
	if status == 0 {
		status = http.StatusOK
	}
	switch b := body.(type) {
	case passOn:
		return b(f)
	case page:
		f.Set(fiber.HeaderContentType, b.contentType)
		f.Set(fiber.HeaderContentSecurityPolicy, lockedDown+"; style-src "+b.style)
		return f.Status(status).Send(b.text)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding answer of %s: %w", r.path, err)
	}
	f.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return f.Status(status).Send(append(text, '\n'))
}

// writeRefusal is the one place that writes a refusal.
func (c *Console) writeRefusal(f *fiber.Ctx, no *refusal) error {
	head(f)
	if no.status == http.StatusUnauthorized {
		f.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="weir"`)
	}
	if no.after > 0 {
		f.Set(fiber.HeaderRetryAfter, strconv.Itoa(no.after))
	}
	setETag(f, no.etag)
	f.Set(fiber.HeaderContentType, problem.ContentType)
	return f.Status(no.status).Send(problem.Problem{
		Title: http.StatusText(no.status), Status: no.status, Code: no.code, Detail: no.detail,
		RequestID: requestID(f), RetryAfter: no.after, Extra: no.extra,
	}.JSON())
}

func setETag(f *fiber.Ctx, tag string) {
	if tag != "" {
		f.Set(fiber.HeaderETag, `"`+tag+`"`)
	}
}

// lockedDown is a Content-Security-Policy under which nothing runs or loads.
const lockedDown = "default-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"

// head sets what every answer carries. There is no CORS: no page of another
// origin has business here.
func head(f *fiber.Ctx) {
	f.Set("X-Request-Id", requestID(f))
	f.Set(fiber.HeaderCacheControl, "no-store")
	f.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	f.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	f.Set(fiber.HeaderContentSecurityPolicy, lockedDown)
}

// failed answers what no route did: no such path or method, or a request that
// could not be read. fasthttp's own texts print the request and are not used.
func (c *Console) failed(f *fiber.Ctx, err error) error {
	status := http.StatusInternalServerError
	var fault *fiber.Error
	if errors.As(err, &fault) {
		status = fault.Code
	}
	switch status {
	case http.StatusNotFound:
		return c.writeRefusal(f, refuse(status, "not_found", "There is nothing here; GET / lists the API."))
	case http.StatusMethodNotAllowed:
		return c.writeRefusal(f, refuse(status, "method", "This path has other methods; see Allow."))
	case http.StatusRequestEntityTooLarge:
		return c.writeRefusal(f, refuse(status, "too_large", "The body is too large: it may have %d bytes; with the orders of a reconcile, %d MiB.", c.bodyLimit, reconcileBody>>20))
	case http.StatusRequestHeaderFieldsTooLarge:
		return c.writeRefusal(f, refuse(status, "headers_too_large", "The request's head is too large."))
	case http.StatusRequestTimeout:
		return c.writeRefusal(f, refuse(status, "timeout", "The request did not arrive in time."))
	case http.StatusBadRequest:
		return c.writeRefusal(f, badRequest("The request cannot be read."))
	}
	c.log.Error("request failed", "error", err, "request_id", requestID(f))
	return c.writeRefusal(f, refusalOf(err))
}
