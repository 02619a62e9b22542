package gateway

import (
	"strconv"
	"time"
)

// Outcome is how a request ends. Stages return it; write turns it into a
// response. The zero Outcome means "go on to the next stage".
type Outcome struct {
	Kind       Kind
	Detail     string         // for people; never a private cause
	RetryAfter time.Duration  // 0 takes the table's
	Location   string         // where the buyer learns more
	Extra      map[string]any // further members of the problem
	Allow      string         // for 405 and OPTIONS
	Fault      error          // private cause, for the log only

	// answer writes the response of a request that was not refused.
	answer func(*exchange)
}

// Kind names an outcome; its row in the table says the rest.
type Kind uint8

const (
	goOn Kind = iota
	Forwarded
	Own
	FromLedger
	BadRequest
	BadMethod
	BadVersion
	RequestTimeout
	TooLarge
	HeadersTooLarge
	CrossSite
	UserRequired
	Blacklisted
	NotFound
	Method
	SaleNotStarted
	SaleEnded
	SalePaused
	NotOnSale
	SoldOut
	RateLimited
	SharedLimited
	Overloaded
	CaptchaRequired
	CaptchaInvalid
	CaptchaWrong
	CaptchaExpired
	CaptchaUnavailable
	PassSpent
	NoneFreeNow
	NotEnough
	PurchaseLimit
	InProgress
	OrderMismatch
	InventoryUnavailable
	OutcomeUnknown
	ShopRefused
	UpstreamFailed
	UpstreamUnknown
	UpstreamTimeout
	Internal
	kinds
)

// row is one line of the outcome table: the contract of docs/api.md.
type row struct {
	status  int
	code    string
	title   string
	detail  string
	offence bool          // the judge counts it against the caller
	retry   time.Duration // default Retry-After; 0 sends none
}

// table is the one place that says what each outcome looks like.
var table = [kinds]row{
	Forwarded:            {200, "forwarded", "Forwarded", "", false, 0},
	Own:                  {200, "own", "Answered by weir", "", false, 0},
	FromLedger:           {200, "confirmed", "Already yours", "", false, 0},
	BadRequest:           {400, "bad_request", "Request not understood", "", true, 0},
	BadMethod:            {501, "method_unknown", "Method not known here", "", true, 0},
	BadVersion:           {505, "version_unknown", "HTTP version not spoken here", "", true, 0},
	RequestTimeout:       {408, "request_timeout", "Request not finished in time", "", false, 0},
	TooLarge:             {413, "too_large", "Request too large", "", false, 0},
	HeadersTooLarge:      {431, "headers_too_large", "Headers too large", "", false, 0},
	CrossSite:            {403, "cross_site", "Sent from another site", "Please start from the sale's own page.", false, 0},
	UserRequired:         {401, "user_required", "Please sign in", "This needs a signed-in visitor.", false, 0},
	Blacklisted:          {403, "blacklisted", "Access closed", "Access from here is closed. If that is a mistake, please contact the shop with the request id.", false, 0},
	NotFound:             {404, "not_found", "Not found", "", false, 0},
	Method:               {405, "method", "Method not allowed", "", false, 0},
	SaleNotStarted:       {409, "sale_not_started", "The sale has not started", "Please come back when it starts.", false, time.Second},
	SaleEnded:            {410, "sale_ended", "The sale is over", "", false, 0},
	SalePaused:           {503, "sale_paused", "The sale is paused", "It goes on shortly; nothing is lost.", false, 5 * time.Second},
	NotOnSale:            {409, "not_on_sale", "Not on sale here", "This item's stock is not ready.", false, 5 * time.Second},
	SoldOut:              {409, "sold_out", "Sold out", "All units are sold.", false, 0},
	RateLimited:          {429, "rate_limited", "Too many requests", "Please wait a moment.", true, time.Second},
	SharedLimited:        {429, "rate_limited", "Very busy", "Many people ask for this at once. Please try again in a moment.", false, time.Second},
	Overloaded:           {503, "overloaded", "Very busy", "Please try again in a moment; you keep your place with your pass.", false, time.Second},
	CaptchaRequired:      {403, "captcha_required", "Please solve the picture", "Solve a challenge first; it gives you a pass.", false, 0},
	CaptchaInvalid:       {403, "captcha_invalid", "This pass is not valid here", "Please solve a new challenge.", true, 0},
	CaptchaWrong:         {403, "captcha_wrong", "Not quite", "That was not what the picture shows. Here is a new one.", true, 0},
	CaptchaExpired:       {410, "captcha_expired", "The picture has expired", "Please ask for a new one.", false, 0},
	CaptchaUnavailable:   {503, "captcha_unavailable", "No picture right now", "Please try again in a moment.", false, 2 * time.Second},
	PassSpent:            {409, "pass_spent", "This pass is spent", "Its order is closed. Solve a new challenge to order again.", false, 0},
	NoneFreeNow:          {409, "none_free_now", "None free right now", "All units are held by other buyers; some may come back.", false, 2 * time.Second},
	NotEnough:            {409, "not_enough", "Not that many left", "Fewer units are left than you asked for.", false, 0},
	PurchaseLimit:        {409, "purchase_limit", "Limit reached", "You have as many units as one buyer may have.", false, 0},
	InProgress:           {409, "in_progress", "Your order is on its way", "An earlier request with this pass is not settled yet. Ask again in a moment.", false, time.Second},
	OrderMismatch:        {422, "order_mismatch", "Not the order of this pass", "The pass was used for another order.", false, 0},
	InventoryUnavailable: {503, "inventory_unavailable", "Stock cannot be read right now", "Nothing was taken. Please try again with the same pass.", false, time.Second},
	OutcomeUnknown:       {503, "outcome_unknown", "We do not know yet", "Your unit may be held. Ask again with the same pass; you cannot buy twice.", false, 2 * time.Second},
	ShopRefused:          {0, "shop_refused", "The shop refused the order", "", false, 0},
	UpstreamFailed:       {502, "upstream_failed", "The shop did not answer", "The order was not sent and your unit was given back. Please solve a new picture and try again.", false, time.Second},
	UpstreamUnknown:      {502, "upstream_unknown", "The shop's answer is missing", "Your unit is held while we ask the shop. Ask again with the same pass; you cannot buy twice.", false, 2 * time.Second},
	UpstreamTimeout:      {504, "upstream_unknown", "The shop is slow", "Your unit is held while we ask the shop. Ask again with the same pass; you cannot buy twice.", false, 2 * time.Second},
	Internal:             {500, "internal", "Something went wrong here", "", false, time.Second},
}

// label is the metric label: the code, apart from kinds that share one.
func (k Kind) label() string {
	if k == UpstreamTimeout {
		return "upstream_timeout"
	}
	return table[k].code
}

func refuse(k Kind) Outcome { return Outcome{Kind: k} }

func refuseWith(k Kind, detail string) Outcome { return Outcome{Kind: k, Detail: detail} }

// retrySeconds rounds d up to whole seconds and spreads callers over one more,
// so that they do not come back together. The jitter grows with the wait, a
// quarter of it, to a few seconds: who waits for a start must not miss it.
// mostJitter bounds the spread, in seconds.
const mostJitter = 3

func retrySeconds(d time.Duration, random uint32) int {
	if d <= 0 {
		return 0
	}
	secs := int((d + time.Second - 1) / time.Second)
	return secs + int(random%uint32(min(secs/4, mostJitter)+2))
}

func itoa(n int) string { return strconv.Itoa(n) }
