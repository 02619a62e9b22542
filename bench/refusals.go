package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// leastRight is the share of weir's answers that must be the refusal that is being measured.
const leastRight = 0.99

// refusal is one kind of refused caller. prepare brings weir to where it refuses user.
type refusal struct {
	name, about string
	status      int
	code        string
	units       int
	captcha     bool
	prepare     func(ctx context.Context, w *weirProcess, user string) error
}

func refusalKinds() []refusal {
	nothing := func(context.Context, *weirProcess, string) error { return nil }
	return []refusal{
		{name: "limited user", about: "one signed-in user far above his own limit of 2 orders a second, through record, caller, blacklist, route, sale and own limits",
			status: 429, code: "rate_limited", units: 100, captcha: true, prepare: nothing},
		{name: "banned user", about: "a user on the blacklist, through record, caller and blacklist",
			status: 403, code: "blacklisted", units: 100, captcha: true,
			prepare: func(ctx context.Context, w *weirProcess, user string) error { return w.ban(ctx, user) }},
		{name: "sold out", about: "a signed-in user after the only unit was sold, through record, caller, blacklist, route and sale",
			status: 409, code: "sold_out", units: 1, captcha: false, prepare: sellOne},
	}
}

// pair is one turn of each side, one right after the other.
type pair struct{ empty, weir tally }

// refusalResult is what was measured of one kind.
type refusalResult struct {
	refusal
	bodySize int
	pairs    []pair
}

func (r refusalResult) right() float64 {
	requests, wanted := 0, 0
	for _, p := range r.pairs {
		requests += p.weir.requests
		wanted += p.weir.wanted
	}
	return float64(wanted) / float64(max(requests, 1))
}

func measureRefusals(ctx context.Context, o options) ([]refusalResult, error) {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err := buildWeir(ctx, dir)
	if err != nil {
		return nil, err
	}
	var results []refusalResult
	for _, kind := range refusalKinds() {
		say("refusals: %s", kind.name)
		r, err := kind.measure(ctx, o, program, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure starts both servers and lets them take turns.
func (k refusal) measure(ctx context.Context, o options, program, dir string) (refusalResult, error) {
	r := refusalResult{refusal: k}
	w, err := startWeir(ctx, program, dir, settings(k.units, k.captcha))
	if err != nil {
		return r, err
	}
	defer w.stop()
	request, err := buyRequest("bench-user")
	if err != nil {
		return r, err
	}
	if err := k.prepare(ctx, w, "bench-user"); err != nil {
		return r, err
	}
	if r.bodySize, err = k.awaitRefusal(ctx, &w.server, request); err != nil {
		return r, err
	}
	empty, err := startEmpty(ctx, r.bodySize)
	if err != nil {
		return r, err
	}
	defer empty.stop()
	turn := func(d time.Duration) (p pair, err error) {
		p.empty, err = load(ctx, empty, request, o.conns, d, func(a answer) bool { return a.status == http.StatusOK })
		if err != nil {
			return p, err
		}
		p.weir, err = load(ctx, &w.server, request, o.conns, d, k.is)
		return p, err
	}
	if _, err := turn(o.turn / 4); err != nil { // heaps and connections warm up
		return r, err
	}
	for range o.pairs {
		p, err := turn(o.turn)
		if err != nil {
			return r, err
		}
		r.pairs = append(r.pairs, p)
	}
	if got := r.right(); got < leastRight {
		return r, fmt.Errorf("only %.2f %% of the answers were %d %s", 100*got, k.status, k.code)
	}
	if o.profile != "" && k.code == "rate_limited" {
		return r, k.profile(ctx, o, w, request)
	}
	return r, nil
}

// is says whether the answer is the refusal that is being measured.
func (k refusal) is(a answer) bool {
	return a.status == k.status && bytes.Contains(a.body, []byte(`"code":"`+k.code+`"`))
}

// awaitRefusal asks until weir refuses as it should, and gives the size of the refusal's body.
func (k refusal) awaitRefusal(ctx context.Context, s *server, request []byte) (int, error) {
	c, err := dial(ctx, s.addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	until := time.Now().Add(10 * time.Second)
	_ = c.SetDeadline(until)
	for {
		a, err := c.do(request)
		switch {
		case err != nil:
			return 0, fmt.Errorf("waiting for the refusal: %w", err)
		case k.is(a):
			return len(a.body), nil
		case time.Now().After(until):
			return 0, fmt.Errorf("no refusal, the last answer was %d %.200s", a.status, a.body)
		}
	}
}

// profile loads weir once more while it profiles itself.
func (k refusal) profile(ctx context.Context, o options, w *weirProcess, request []byte) error {
	const seconds = 5
	done := make(chan error, 1)
	go func() { done <- w.profileTo(ctx, o.profile, seconds) }()
	_, err := load(ctx, &w.server, request, o.conns, (seconds+1)*time.Second, k.is)
	return errors.Join(err, <-done)
}

// sellOne buys the only unit.
func sellOne(ctx context.Context, w *weirProcess, _ string) error {
	request, err := buyRequest("first-buyer")
	if err != nil {
		return err
	}
	c, err := dial(ctx, w.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	a, err := c.do(request)
	if err != nil {
		return fmt.Errorf("buying the only unit: %w", err)
	}
	if a.status != http.StatusSeeOther {
		return fmt.Errorf("buying the only unit: %d %.200s", a.status, a.body)
	}
	return nil
}

// buyRequest is the request of a script, the same bytes to both servers.
func buyRequest(user string) ([]byte, error) {
	cookie, err := session(user)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "POST /buy/1001 HTTP/1.1\r\nHost: sale.example\r\nUser-Agent: bench\r\nAccept: application/json\r\nCookie: %s\r\nContent-Length: 0\r\n\r\n", cookie), nil
}
