package pages

import (
	"cmp"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// prepareAhead is how long before the start the picture may be solved: late
// enough that the pass outlives the wait, early enough to be out of the rush.
const prepareAhead = 2 * time.Minute

// autoReload is how close the start must be for a page without JavaScript to
// reload itself then.
const autoReload = 15 * time.Minute

// CSP is the Content-Security-Policy under which the pages work. Forms may end
// on any https site because a shop may answer a buy with a redirect to its
// payment provider, and browsers hold such redirects against form-action.
const CSP = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; media-src 'self'; " +
	"connect-src 'self'; form-action 'self' https:; base-uri 'none'; frame-ancestors 'none'"

// Phases of the buyer's page. They are what a buyer can do, not sale states.
const (
	phaseDraft     = "draft"
	phaseSoon      = "soon"
	phaseOpen      = "open"
	phasePaused    = "paused"
	phaseSoldOut   = "sold-out"
	phaseEnded     = "ended"
	phaseCancelled = "cancelled"
)

// frame is what every page needs.
type frame struct {
	PageTitle string
	Reload    int // seconds after which a page without script reloads, 0 = never
}

type buyView struct {
	frame
	Buy
	Name, Phase string
	Held        *heldView
	Tone        string // of Message: info, good or warn
}

func newBuyView(b Buy) buyView {
	v := buyView{Buy: b, Name: b.ItemName, Phase: phaseOf(b), Tone: toneOf(b.MessageCode)}
	if v.Name == "" {
		v.Name = b.Item
	}
	v.frame = frame{PageTitle: v.Name}
	if b.Reservation != nil {
		h := newHeldView(b.Prefix, *b.Reservation)
		if v.Phase == phaseCancelled && h.State == "confirmed" {
			h.Sentence = "Your order was placed before the sale was called off, and it stays valid. If you have a question about it, please ask the shop."
		}
		v.Held = &h
	}
	if wait := b.StartsAt.Sub(b.Now); v.Phase == phaseSoon && wait <= autoReload {
		v.Reload = int(wait/time.Second) + 1
	}
	return v
}

func phaseOf(b Buy) string {
	switch b.State {
	case "pending", "running":
		switch {
		case b.Now.Before(b.StartsAt):
			return phaseSoon
		case !b.EndsAt.IsZero() && !b.Now.Before(b.EndsAt):
			return phaseEnded
		case b.SoldOut:
			return phaseSoldOut
		}
		return phaseOpen
	case "paused":
		return phasePaused
	case "ended":
		return phaseEnded
	case "cancelled":
		return phaseCancelled
	}
	return phaseDraft
}

func toneOf(code string) string {
	switch code {
	case "":
		return "info"
	case "captcha_solved", "reserved", "confirmed", "ok":
		return "good"
	}
	return "warn"
}

// Active says that the buyer can still do something here: solve or buy.
func (v buyView) Active() bool {
	return (v.Phase == phaseSoon || v.Phase == phaseOpen) && (v.Held == nil || !v.Held.Standing || v.MayBuyMore)
}

// Solve says that a picture stands between the buyer and the button.
func (v buyView) Solve() bool { return v.NeedsCaptcha && !v.HasPass }

// SolveFrom is when the picture may be asked for.
func (v buyView) SolveFrom() time.Time { return v.StartsAt.Add(-prepareAhead) }

// TooEarly says that the picture cannot be asked for yet.
func (v buyView) TooEarly() bool {
	return v.Phase == phaseSoon && v.Challenge == nil && v.Now.Before(v.SolveFrom())
}

// Ready says that the buy button works right now, without script.
func (v buyView) Ready() bool { return v.Phase == phaseOpen && v.SignedIn && !v.Solve() }

// Page is this page's own address.
func (v buyView) Page() string { return v.Prefix + "/sales/" + v.Sale + "/page" }

// heldView is a reservation in words.
type heldView struct {
	Reservation
	URL                string // of the reservation
	Headline, Sentence string
	Tone               string
	Standing           bool // the buyer has a unit, or may have one
	Open               bool // not decided yet
}

func newHeldView(prefix string, r Reservation) heldView {
	v := heldView{Reservation: r, URL: prefix + "/reservations/" + r.ID, Tone: "info"}
	switch r.State {
	case "confirmed":
		v.Headline, v.Sentence = "It is yours", "Your order is placed. Nothing more to do here."
		v.Tone, v.Standing = "good", true
	case "reserved":
		v.Headline, v.Sentence = "Held for you", "Nobody else can buy what is held for you. We are waiting for the shop to complete the order."
		v.Standing, v.Open = true, true
	case "released":
		v.Headline, v.Sentence = "Not sold", "The shop could not complete this order, so what was held for you went back on sale."
	case "expired":
		v.Headline, v.Sentence = "Time ran out", "The order was not completed in time, so what was held for you went back on sale."
	case "returned":
		v.Headline, v.Sentence = "Order cancelled", "This order was cancelled and what you had went back on sale."
	case "refund_due":
		v.Headline, v.Sentence = "Refund on its way", "Your payment came after the time to pay. The shop will refund it."
		v.Tone = "warn"
	case "cancelled":
		v.Headline, v.Sentence = "Cancelled", "This order was cancelled before it was placed."
	default:
		v.Headline, v.Sentence = "One moment", "We are finding out what became of this order."
		v.Open = true
	}
	return v
}

type reservationView struct {
	frame
	Held            heldView
	Prefix, BackURL string
}

func newReservationView(prefix string, r Reservation, backURL string) reservationView {
	v := reservationView{frame: frame{PageTitle: "Your reservation"}, Prefix: prefix, Held: newHeldView(prefix, r), BackURL: backURL}
	if v.Held.Open {
		v.Reload = 5
	}
	return v
}

type refusalView struct {
	frame
	Refusal
	Heading string
}

// Back is what the way back to the sale is called.
func (v refusalView) Back() string {
	if !v.StartsAt.IsZero() {
		return "Wait on the sale's page"
	}
	return "Back to the sale"
}

// Plain says that the way back is not the first button.
func (v refusalView) Plain() bool {
	return v.SignInURL != "" || v.AskAgain != "" || v.ReservationURL != ""
}

func newRefusalView(r Refusal) refusalView {
	say := buyersWords(r.Code)
	v := refusalView{Refusal: r, Heading: cmp.Or(say.title, r.Title, "That did not work")}
	if say.sentence != "" && (!say.fallback || r.Detail == "") {
		v.Detail = say.sentence
	}
	if r.AskAgain != "" {
		v.Detail += onceOnly
	}
	if !r.StartsAt.IsZero() {
		v.RetryAfter = 0 // the time says more than a count of seconds, and the sale's page counts
	}
	v.frame = frame{PageTitle: v.Heading}
	return v
}

// funcs of the templates. hashes give each asset an address of its own.
func funcs(hashes map[string]string) template.FuncMap {
	return template.FuncMap{
		"asset": func(prefix, name string) string { return prefix + "/assets/" + name + "?v=" + hashes[name] },
		"iso":   func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		"words": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") },
		"left":  left,
	}
}

// left is the time from now to t in words, e.g. "1 h 02 min 03 s".
func left(now, t time.Time) string {
	s := int64(max(t.Sub(now)+time.Second-1, 0) / time.Second)
	var b strings.Builder
	if d := s / 86400; d > 0 {
		b.WriteString(strconv.FormatInt(d, 10) + " d ")
	}
	if h := s / 3600 % 24; h > 0 || s >= 86400 {
		b.WriteString(strconv.FormatInt(h, 10) + " h ")
	}
	if m := s / 60 % 60; m > 0 || s >= 3600 {
		b.WriteString(strconv.FormatInt(m, 10) + " min ")
	}
	return b.String() + strconv.FormatInt(s%60, 10) + " s"
}
