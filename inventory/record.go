package inventory

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// states are the letters of the ledger.
func stateOf(letter string) (State, bool) {
	switch letter {
	case "r":
		return Reserved, true
	case "c":
		return Confirmed, true
	case "l":
		return Released, true
	case "e":
		return Expired, true
	case "d":
		return RefundDue, true
	case "t":
		return Returned, true
	case "x":
		return Cancelled, true
	}
	return "", false
}

// parseRecord reads the ledger record of an order, named as its bucket does.
func parseRecord(e *entry, c *cell, epoch int64, order, text string) (Reservation, error) {
	return recordOf(e, c, epoch, e.tag+order, text)
}

// recordOf reads the ledger record of an order id, see lua/common.lua for its
// form; epoch is where the bucket's times begin. Every win passes here, so it
// cuts in place.
func recordOf(e *entry, c *cell, epoch int64, id, text string) (Reservation, error) {
	letters, rest, _ := strings.Cut(text, " ")
	var n [7]int64 // quantity, reserved, deadline, attempt, until, lengths of user and kind
	for i := range n {
		field, after, ok := strings.Cut(rest, " ")
		v, err := strconv.ParseInt(field, 10, 64)
		if err != nil || !ok {
			return Reservation{}, errUnreadable(id)
		}
		n[i], rest = v, after
	}
	if letters == "" {
		return Reservation{}, errUnreadable(id)
	}
	state, ok := stateOf(letters[:1])
	user, kind := n[5], n[6]
	if left := int64(len(rest)); !ok || user < 0 || kind < 0 || user > left || kind > left-user {
		return Reservation{}, errUnreadable(id)
	}
	r := Reservation{
		ID: id, Sale: e.view.Sale.ID, Item: e.view.Sale.Item, Bucket: c.index,
		User: rest[:user], Kind: rest[user : user+kind], ShopOrder: rest[user+kind:],
		Quantity: n[0], State: state, ReservedAt: msTime(epoch + n[1]), ExpiresAt: msTime(epoch + n[2]),
		Attempt: int(n[3]), Stuck: strings.Contains(letters[1:], "s"), InPayment: strings.Contains(letters[1:], "p"),
	}
	if n[4] != 0 {
		r.AttemptUntil = msTime(epoch + n[4])
	}
	return r, nil
}

func errUnreadable(id string) error { return fmt.Errorf("ledger record of %s: unreadable", id) }

func msTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
