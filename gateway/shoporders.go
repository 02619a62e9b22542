package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/inventory"
)

const (
	// ordersTimeout bounds one page of the shop's list, and so how long a stop
	// waits for it.
	ordersTimeout = 30 * time.Second
	ordersPage    = 8 << 20 // bytes of one page
	ordersPages   = 20_000
	ordersText    = 1 << 10 // bytes of one text of an order
	ordersURI     = 4 << 10 // bytes of the path of a page
)

// ShopOrders are the shop's orders, for inventory.Reconcile.
//
// The list is GET + UpstreamConfig.Orders, signed like the lookup, with
// Weir-Sale. The answer, 200, is an array of
//
//	{"reservation", "order", "user", "quantity", "state"}
//
// or one such object a line; state is placed, paid or cancelled, further
// members are ignored. A page of at most 8 MiB; the next one is named by
// Link: <…>; rel="next" on the same host. A template with {after} in it is asked
// again instead, with the order id of the last page's last one there, until a
// page is empty.
//
// Whatever is not that is an error and makes the whole list worthless: its
// silence about an order counts as "there is none". So an answer must be framed
// by Content-Length or chunks; one that ends with its connection may be half.
type ShopOrders struct {
	shop   *shop
	client *fasthttp.HostClient
	within time.Duration
}

// ShopOrders reads the shop's orders with the gateway's key and address.
func (g *Gateway) ShopOrders() inventory.Orders { return newShopOrders(g.shop) }

func newShopOrders(s *shop) *ShopOrders {
	c := s.client()
	c.ReadTimeout, c.StreamResponseBody = ordersTimeout, true
	return &ShopOrders{shop: s, client: c, within: ordersTimeout}
}

// Each implements inventory.Orders.
func (o *ShopOrders) Each(ctx context.Context, sale string, fn func(inventory.ShopOrder) error) error {
	template := strings.ReplaceAll(o.shop.cfg.Orders, "{sale}", url.QueryEscape(sale))
	if template == "" {
		return inventory.ErrNoList
	}
	uri, cursor := strings.ReplaceAll(template, "{after}", ""), strings.Contains(template, "{after}")
	for page := 1; uri != ""; page++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		body, next, err := o.fetch(ctx, sale, uri)
		if err == nil && page > ordersPages {
			err = fmt.Errorf("more than %d pages", ordersPages)
		}
		if err != nil {
			return fmt.Errorf("page %d of the shop's orders (upstream.orders): %w", page, err)
		}
		last, n, err := eachOrder(body, fn)
		if err != nil {
			return fmt.Errorf("page %d of the shop's orders (upstream.orders): %w", page, err)
		}
		if cursor {
			next = ""
			if n > 0 {
				next = strings.ReplaceAll(template, "{after}", url.QueryEscape(last))
			}
		}
		if next == uri || len(next) > ordersURI {
			return fmt.Errorf("page %d of the shop's orders (upstream.orders): it leads nowhere", page)
		}
		uri = next
	}
	return nil
}

// fetch gets one page, and the path of the next, "" = it was the last.
func (o *ShopOrders) fetch(ctx context.Context, sale, uri string) (body []byte, next string, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	path, query, _ := strings.Cut(uri, "?")
	o.shop.target(req, path, query)
	req.Header.Set("Accept", "application/json, application/x-ndjson")
	o.shop.sign(req, map[string]string{"weir-sale": sale})
	req.SetConnectionClose()
	until := time.Now().Add(o.within)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	if err := sent(o.client.DoDeadline(req, resp, until)); err != nil {
		return nil, "", err
	}
	defer resp.CloseBodyStream()
	switch {
	case resp.StatusCode() != fasthttp.StatusOK:
		return nil, "", fmt.Errorf("the shop answered %d", resp.StatusCode())
	case len(resp.Header.ContentEncoding()) > 0:
		return nil, "", fmt.Errorf("the answer is packed (%q)", resp.Header.ContentEncoding())
	case resp.Header.ContentLength() < -1:
		return nil, "", errors.New("the answer ends with its connection: nobody knows whether it is whole")
	}
	if body, err = readPage(resp); err != nil {
		return nil, "", err
	}
	next, err = o.next(uri, resp)
	return body, next, err
}

func readPage(resp *fasthttp.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.BodyStream(), ordersPage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case len(body) > ordersPage:
		return nil, fmt.Errorf("more than %d MiB", ordersPage>>20)
	}
	return body, nil
}

// next reads the Link header. It never leads to another host: what weir signs
// is for the shop alone.
func (o *ShopOrders) next(uri string, resp *fasthttp.Response) (string, error) {
	for _, h := range resp.Header.PeekAll("Link") {
		target, ok := nextLink(string(h))
		if !ok {
			continue
		}
		base, err := url.Parse(o.shop.cfg.URL.Scheme + "://" + o.shop.cfg.URL.Host + uri)
		if err != nil {
			return "", fmt.Errorf("reading its own path: %w", err)
		}
		u, err := base.Parse(target)
		if err != nil || u.Scheme != base.Scheme || u.Host != base.Host || u.User != nil {
			return "", fmt.Errorf("its next page (%.80q) is not on the shop's own host", target)
		}
		u.Fragment = ""
		return u.RequestURI(), nil
	}
	return "", nil
}

// Lookup implements inventory.Orders by the question of UpstreamConfig.Lookup:
// 200 yes, 404 no. A body of the list's form tells more; any other is ignored.
func (o *ShopOrders) Lookup(ctx context.Context, r inventory.Reservation) (order inventory.ShopOrder, has bool, err error) {
	if o.shop.cfg.Lookup == "" {
		return inventory.ShopOrder{}, false, inventory.ErrNoLookup
	}
	if err := ctx.Err(); err != nil {
		return inventory.ShopOrder{}, false, err
	}
	err = o.shop.askAbout(r, func(resp *fasthttp.Response) (err error) {
		order, has, err = told(r.ID, resp)
		return err
	})
	return order, has, err
}

// told reads a yes.
func told(id string, resp *fasthttp.Response) (inventory.ShopOrder, bool, error) {
	order := inventory.ShopOrder{Reservation: id, Order: string(resp.Header.Peek("Weir-Order"))}
	order.Order = order.Order[:min(len(order.Order), maxShopOrder)]
	var row orderRow
	if json.Unmarshal(resp.Body(), &row) != nil || row.check() != nil {
		return order, true, nil
	}
	if row.Reservation != "" && row.Reservation != id {
		return inventory.ShopOrder{}, false, errors.New("it told of another")
	}
	if row.State == inventory.OrderCancelled {
		return inventory.ShopOrder{}, false, nil
	}
	if order.Order == "" {
		order.Order = row.Order[:min(len(row.Order), maxShopOrder)]
	}
	order.User, order.Quantity, order.State = row.User, row.Quantity, row.State
	return order, true, nil
}
