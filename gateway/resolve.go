package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"weir/inventory"
)

const (
	// sweepEvery is how often each sale is swept for due holds and attempts.
	sweepEvery = 500 * time.Millisecond
	// askTimeout bounds one question, and so how long a stop waits for it.
	askTimeout = 2 * time.Second
	// askGrace is how long after a hold's end a "no order" of the shop is
	// believed: its clock may be behind ours.
	askGrace = time.Second
	// askWorkers bounds how many questions to the shop run at once.
	askWorkers = 4
)

// resolve frees due holds and asks the shop about attempts whose outcome
// nobody settled: a time-out, a hang-up after reading, a gateway that died.
// The list of them lies in Redis, so any replica finishes another's work. Each
// sale is swept by itself: one whose shop hangs delays no other.
func (g *Gateway) resolve(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	var busy sync.Map // sale id → being swept
	for {
		for _, v := range g.deps.Stock.Views() {
			id := v.Sale.ID
			if _, already := busy.LoadOrStore(id, true); already {
				continue
			}
			running.Go(func() {
				defer busy.Delete(id)
				if err := g.sweep(ctx, id); err != nil && ctx.Err() == nil {
					g.deps.Log.Warn("sweeping a sale", "sale", id, "err", err)
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) sweep(ctx context.Context, sale string) error {
	swept, err := g.deps.Stock.Sweep(ctx, sale)
	if err != nil {
		return err
	}
	if swept.Freed > 0 {
		g.deps.Log.Info("holds expired, units are free again", "sale", sale, "units", swept.Freed)
	}
	if g.cfg.Upstream.Lookup == "" {
		return nil // this shop cannot be asked; its sales free due holds by time
	}
	slots := make(chan struct{}, askWorkers)
	var all sync.WaitGroup
	for _, r := range swept.Ask {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break // the list lies in Redis; somebody else goes on
		}
		all.Go(func() {
			defer func() { <-slots }()
			g.askAndSettle(ctx, r)
		})
	}
	all.Wait()
	return nil
}

// askAndSettle closes one open attempt by what the shop says. "No order" frees
// the unit only when the hold is due: until then the request may still be on
// its way, after it the shop refuses it by Weir-Expires.
func (g *Gateway) askAndSettle(ctx context.Context, r inventory.Reservation) {
	has, order, err := g.shop.hasOrder(r)
	switch {
	case err != nil:
		g.seen.asked.WithLabelValues("unknown").Inc()
		if g.log.faults.Allow() {
			g.deps.Log.Warn("the shop cannot be asked about an open attempt (upstream.lookup)", "sale", r.Sale, "reservation", r.ID, "err", err)
		}
		if !r.Stuck && g.deps.Now().After(r.ExpiresAt) {
			g.deps.Log.Error("a hold is due and the shop cannot say whether it has an order", "sale", r.Sale, "reservation", r.ID, "err", err)
			err = g.deps.Stock.MarkStuck(ctx, r.Sale, r.ID)
		} else {
			err = nil
		}
	case has:
		g.seen.asked.WithLabelValues("order").Inc()
		err = g.confirmFound(ctx, r, order)
	default:
		g.seen.asked.WithLabelValues("no_order").Inc()
		if g.deps.Now().Before(r.ExpiresAt.Add(askGrace)) {
			return
		}
		_, err = g.deps.Stock.Expire(ctx, r.Sale, r.ID)
	}
	if err != nil && !errors.Is(err, inventory.ErrNotAllowed) && !errors.Is(err, inventory.ErrAttemptOver) {
		g.deps.Log.Warn("settling what the shop told", "reservation", r.ID, "err", err)
	}
}

func (g *Gateway) confirmFound(ctx context.Context, r inventory.Reservation, order string) error {
	v, ok := g.deps.Stock.View(r.Sale)
	if ok && !mayConfirm(v.Sale) {
		_, err := g.deps.Stock.Accept(ctx, r.Sale, r.ID, r.Attempt, order)
		return err
	}
	_, err := g.deps.Stock.Confirm(ctx, r.Sale, r.ID, r.Attempt, order)
	return err
}

// hasOrder asks the shop by reservation id. An error means that it cannot say.
func (s *shop) hasOrder(r inventory.Reservation) (has bool, order string, err error) {
	err = s.askAbout(r, func(resp *fasthttp.Response) error {
		has, order = true, string(resp.Header.Peek("Weir-Order"))
		order = order[:min(len(order), maxShopOrder)]
		return nil
	})
	return has, order, err
}

// askAbout asks the question of UpstreamConfig.Lookup; yes reads a yes, and is
// not called for a no.
func (s *shop) askAbout(r inventory.Reservation, yes func(*fasthttp.Response) error) error {
	uri := strings.ReplaceAll(s.cfg.Lookup, "{id}", r.ID)
	h := map[string]string{"weir-reservation": r.ID, "weir-sale": r.Sale, "weir-item": r.Item}
	err := s.ask(fasthttp.MethodGet, uri, nil, h, min(s.cfg.Timeout, askTimeout), func(resp *fasthttp.Response) error {
		switch resp.StatusCode() {
		case fasthttp.StatusOK:
			return yes(resp)
		case fasthttp.StatusNotFound:
			return nil
		}
		return fmt.Errorf("it answered %d", resp.StatusCode())
	})
	if err != nil {
		return fmt.Errorf("asking the shop about a reservation: %w", err)
	}
	return nil
}

// ask sends one signed request to a path and query of the shop, on a connection
// of its own, and has read look at the answer, which it must not keep. A body is
// JSON. The errors are read's and those of order.
func (s *shop) ask(method, uri string, body []byte, h map[string]string, within time.Duration, read func(*fasthttp.Response) error) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	path, query, _ := strings.Cut(uri, "?")
	s.target(req, path, query)
	req.Header.SetMethod(method)
	if body != nil {
		req.Header.SetContentType("application/json")
		req.SetBody(body)
	}
	s.sign(req, h)
	if err := s.order(req, resp, within); err != nil {
		return err
	}
	return read(resp)
}
