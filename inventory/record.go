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

// parseRecord reads a ledger record, see lua/common.lua for its form.
func parseRecord(sale Sale, id, text string) (Reservation, error) {
	bad := fmt.Errorf("ledger record of %s: unreadable", id)
	f := strings.SplitN(text, " ", 9)
	if len(f) != 9 {
		return Reservation{}, bad
	}
	var n [8]int64
	for i := 1; i < 8; i++ {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return Reservation{}, bad
		}
		n[i] = v
	}
	state, ok := stateOf(f[0])
	if !ok || n[7] < 0 || n[7] > int64(len(f[8])) {
		return Reservation{}, bad
	}
	r := Reservation{
		ID: id, Sale: sale.ID, Item: sale.Item, User: f[8][:n[7]], ShopOrder: f[8][n[7]:],
		Quantity: n[1], State: state, ReservedAt: msTime(n[2]), ExpiresAt: msTime(n[3]),
		Attempt: int(n[4]), Stuck: n[6] == 1,
	}
	if n[5] != 0 {
		r.AttemptUntil = msTime(n[5])
	}
	return r, nil
}

func msTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
