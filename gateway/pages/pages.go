// Package pages draws what a buyer sees: the page of a sale, a reservation and
// a refusal, with their style and script.
//
// It takes values and writes HTML; it knows no request, no Redis and no
// secret. Every page works without JavaScript; the script only counts down,
// shows the picture in place and then submits the same forms. There is no
// inline script or style, so a strict Content-Security-Policy holds.
package pages

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Buy is the buyer's page of one sale.
type Buy struct {
	Prefix   string // of weir's own routes, "/_weir"
	Sale     string // sale id
	Item     string // item id
	ItemName string // "" shows the item id
	BuyPath  string // where the buy form posts to, e.g. /buy/1001

	State                 string // draft, pending, running, paused, ended, cancelled
	StartsAt, EndsAt, Now time.Time
	SoldOut               bool
	MaxQuantity           int64 // units per order; 1 or less asks for no quantity

	SignedIn  bool
	SignInURL string // "" when the shop named none

	NeedsCaptcha bool
	Challenge    *Challenge // shown when one was asked for

	HasPass     bool
	PassExpires time.Time
	OrderID     string // of the pass: the reservation it leads to

	Reservation *Reservation // of this buyer, when known
	MayBuyMore  bool         // his order is placed and the sale lets him place another

	Message, MessageCode string // last result in words; the code picks its tone
}

// Challenge is a picture to read.
type Challenge struct {
	ID, Prompt, ImageURL, AudioURL string // AudioURL "" when there is no sound
}

// Reservation is what the ledger says about an order.
type Reservation struct {
	ID, State, Item string
	Quantity        int64
	ExpiresAt       time.Time // end of the time to pay; zero when none
	Order           string    // the shop's order id, "" while unknown
	OrderURL        string    // the shop's page of it, "" when unknown
}

// Refusal is a refusal for people.
type Refusal struct {
	Prefix                         string
	Status                         int
	Code, Title, Detail, RequestID string
	RetryAfter                     int       // whole seconds, 0 = not said
	StartsAt                       time.Time // of a sale that has not begun, else zero

	// Ways on; "" leaves one away.
	BackURL        string // the sale's page
	ShopURL        string // the shop's front page, shown when there is no BackURL
	ReservationURL string
	SignInURL      string
	AskAgain       string // where to post the same order again
	Quantity       int64  // of that order, 0 = not asked for
}

// RenderBuy writes the buyer's page. Nothing is written when it fails to
// render; other errors come from w.
func RenderBuy(w io.Writer, b Buy) error { return render(w, "buy", newBuyView(b)) }

// RenderRefusal writes a refusal, with errors as of RenderBuy.
func RenderRefusal(w io.Writer, r Refusal) error { return render(w, "refusal", newRefusalView(r)) }

// RenderReservation writes the page of a reservation, with errors as of
// RenderBuy. prefix is weir's own, backURL leads back to the sale ("" = none).
func RenderReservation(w io.Writer, prefix string, r Reservation, backURL string) error {
	return render(w, "reservation", newReservationView(prefix, r, backURL))
}

func render(w io.Writer, name string, data any) error {
	t, err := templates()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t[name].ExecuteTemplate(&b, "frame", data); err != nil {
		return fmt.Errorf("drawing page %s: %w", name, err)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("sending page %s: %w", name, err)
	}
	return nil
}
