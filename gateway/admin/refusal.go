package admin

import (
	"errors"
	"fmt"
	"net/http"

	"weir/blacklist"
	"weir/inventory"
)

// refusal is an answer that says no. Its texts are public.
type refusal struct {
	status int
	code   string
	detail string
	after  int    // Retry-After in seconds, 0 = none
	etag   string // of what stands, "" = none
	extra  map[string]any
}

func (r *refusal) Error() string { return r.code + ": " + r.detail }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, detail: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "bad_request", format, args...)
}

// away is a 503 that may be asked again in a second.
func away(code, detail string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, code: code, detail: detail, after: 1}
}

// errAudit: the record cannot be written, so the change is not made.
func errAudit() *refusal {
	return away("audit_unavailable", "The audit log cannot be written, so nothing was changed.")
}

// refusalOf gives the public form of an error of the leaves. The texts of
// invalid input come from the leaf, which names field and value; any other
// cause stays private.
func refusalOf(err error) *refusal {
	var own *refusal
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, blacklist.ErrInvalidEntry):
		return refuse(http.StatusBadRequest, "invalid_entry", "%s", err)
	case errors.Is(err, blacklist.ErrTooMany):
		return refuse(http.StatusConflict, "blacklist_full", "The blacklist holds as many entries as it may.")
	case errors.Is(err, blacklist.ErrUnavailable):
		return away("blacklist_unavailable", "The blacklist cannot be reached. A change may or may not have been made; asking again is safe.")
	case errors.Is(err, inventory.ErrUnknownSale):
		return refuse(http.StatusNotFound, "unknown_sale", "No such sale is preheated.")
	case errors.Is(err, inventory.ErrUnknownReservation):
		return refuse(http.StatusNotFound, "unknown_reservation", "The ledger has no such reservation.")
	case errors.Is(err, inventory.ErrNotAllowed):
		return refuse(http.StatusConflict, "not_allowed", "The present state does not allow this.")
	case errors.Is(err, inventory.ErrAttemptOver):
		return refuse(http.StatusConflict, "attempt_over", "Another attempt has been granted since.")
	case errors.Is(err, inventory.ErrSaleStarted):
		return refuse(http.StatusConflict, "sale_started", "The sale has started; its stock is not written anew.")
	case errors.Is(err, inventory.ErrSaleExists):
		return refuse(http.StatusConflict, "sale_exists", "A sale of this id exists; PUT replaces its plan.")
	case errors.Is(err, inventory.ErrPlanChanged):
		return refuse(http.StatusPreconditionFailed, "plan_changed", "The plan is not the one that If-Match names; read it again.")
	case errors.Is(err, inventory.ErrTooManyDrafts):
		return refuse(http.StatusConflict, "drafts_full", "There are as many drafts as may be, %d; preheat or delete some.", inventory.MaxDrafts)
	case errors.Is(err, inventory.ErrVersionReused):
		return refuse(http.StatusConflict, "version_reused", "This version of the sale is preheated with another plan; raise its version.")
	case errors.Is(err, inventory.ErrInvalidSale):
		return refuse(http.StatusUnprocessableEntity, "invalid_sale", "%s", err)
	case errors.Is(err, inventory.ErrInvalidPreheat):
		return refuse(http.StatusUnprocessableEntity, "invalid_preheat", "%s", err)
	case errors.Is(err, inventory.ErrRecorded):
		return away("outcome_unknown", "This is recorded and stays so; a part of the stock cannot be reached and gets it as soon as it answers.")
	case errors.Is(err, inventory.ErrOutcomeUnknown):
		return away("outcome_unknown", "The change may or may not have been made; asking again is safe.")
	case errors.Is(err, inventory.ErrArchiveUnavailable):
		return away("archive_unavailable", "The archive cannot be reached; the stock in Redis is not touched by that. Asking again is safe.")
	case errors.Is(err, inventory.ErrUnavailable):
		return away("inventory_unavailable", "The stock cannot be reached. Nothing was changed.")
	}
	return refuse(http.StatusInternalServerError, "internal", "An unexpected error; the log has its cause under this request id.")
}
