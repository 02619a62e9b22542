package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"weir/inventory"
)

// nextLink finds the target of rel="next" in a Link header (RFC 8288 §3).
func nextLink(header string) (string, bool) {
	for {
		_, rest, ok := strings.Cut(header, "<")
		if !ok {
			return "", false
		}
		target, rest, ok := strings.Cut(rest, ">")
		if !ok {
			return "", false
		}
		params, more := cutLink(rest)
		for param := range strings.SplitSeq(params, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			rels := strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(value), `"`)))
			for _, rel := range rels {
				if strings.EqualFold(strings.TrimSpace(name), "rel") && rel == "next" {
					return strings.TrimSpace(target), true
				}
			}
		}
		header = more
	}
}

// cutLink cuts at the comma that ends a link's parameters, outside of quotes.
func cutLink(s string) (params, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// orderRow is an order in the shop's words.
type orderRow struct {
	Reservation string `json:"reservation"`
	Order       string `json:"order"`
	User        string `json:"user"`
	Quantity    int64  `json:"quantity"`
	State       string `json:"state"`
}

// eachOrder reads one page, an array or objects one after the other, and says
// how many there were and the id of the last.
func eachOrder(body []byte, fn func(inventory.ShopOrder) error) (last string, n int, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	array := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return "", 0, err
		}
	}
	for ; d.More(); n++ {
		var row orderRow
		if err := d.Decode(&row); err != nil {
			return "", n, fmt.Errorf("order %d cannot be read: %w", n+1, err)
		}
		if err := row.check(); err != nil {
			return "", n, fmt.Errorf("order %d: %w", n+1, err)
		}
		if err := fn(inventory.ShopOrder(row)); err != nil {
			return "", n, err
		}
		last = row.Order
	}
	if array {
		if _, err := d.Token(); err != nil {
			return "", n, fmt.Errorf("the list does not end: %w", err)
		}
	}
	if _, err := d.Token(); err != io.EOF {
		return "", n, errors.New("something follows the list")
	}
	return last, n, nil
}

func (r orderRow) check() error {
	switch {
	case max(len(r.Reservation), len(r.Order), len(r.User)) > ordersText:
		return fmt.Errorf("a text of more than %d bytes", ordersText)
	case r.Quantity < 1:
		return fmt.Errorf("quantity %d", r.Quantity)
	case r.State != inventory.OrderPlaced && r.State != inventory.OrderPaid && r.State != inventory.OrderCancelled:
		return fmt.Errorf("state %.40q is none of placed, paid, cancelled", r.State)
	}
	return nil
}
