package main

import (
	"fmt"
	"strings"
	"time"
)

func (r report) writeStock(b *strings.Builder) {
	fmt.Fprintf(b, `
## A full reserve, shared and not

%d callers with a connection each, on one Redis over a unix socket (miniredis: over TCP, inside this process), %d
turns of %v of each way, one after the other. Each order is of another buyer and takes one unit of one bucket. All
units counted are found in the stock afterwards. A shared flight carried this many orders, in the mean: %s.

| Redis | way | orders/s | server CPU µs/order | shared ÷ this |
|---|---|---:|---:|---:|
`, stockCallers, r.opt.pairs, r.opt.step, r.widths())
	for _, c := range r.stock {
		rate := func(way int) []float64 { return each(c.turns[way], tally.perSecond) }
		for way, name := range wayNames() {
			where, ratio := "", spreadOf(ratios(rate(byFlights), rate(way))).String()
			if way == byFlights {
				where, ratio = c.where, ""
			}
			cpu := fmt.Sprintf("%.1f", spreadOf(each(c.turns[way], tally.cpuMicros)).median)
			if c.memory {
				cpu = "" // the server is this process
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", where, name, whole(spreadOf(rate(way)).median), cpu, ratio)
		}
	}
	b.WriteString(`
The plain script only takes: a stock, a history of requests, codes 0 to 3. The full reserve also holds, counts the
buyer's limit, watches its attempt, checks generation and server run, and tells its stored record.
`)
}

func (r report) widths() string {
	var all []string
	for _, c := range r.stock {
		all = append(all, fmt.Sprintf("%s %.0f", c.where, c.width))
	}
	return strings.Join(all, ", ")
}

// writeRest writes what was measured of the stock.
func (r report) writeRest(b *strings.Builder) {
	if len(r.stock) > 0 {
		r.writeStock(b)
	}
	if len(r.lone) > 0 {
		r.writeLone(b)
	}
	if len(r.neighbour) > 0 {
		r.writeNeighbour(b)
	}
	if len(r.soldOut) > 0 {
		fmt.Fprintf(b, `
## The sold-out check

`+"`Store.ViewOfItem(item).SoldOut`"+` as the gateway asks it, on one core, while `+"`Store.Run`"+` keeps the views fresh and the
coarse clock going; %d rounds of a Go benchmark: **%s million checks/s**. No Redis call is made.
`, len(r.soldOut), spreadOf(each(r.soldOut, func(v float64) float64 { return v / 1e6 })))
	}
	if r.memory != nil {
		r.writeMemory(b)
	}
	if len(r.masters) > 0 {
		r.writeMasters(b)
	}
	if len(r.faults) > 0 {
		r.writeFaults(b)
	}
}

func (r report) writeLone(b *strings.Builder) {
	on := func(p lonePair) loneRun { return p.on }
	off := func(p lonePair) loneRun { return p.off }
	of := func(side func(lonePair) loneRun, q func(loneRun) time.Duration) []float64 {
		return each(r.lone, func(p lonePair) float64 { return micros(q(side(p))) })
	}
	p50, p99 := func(r loneRun) time.Duration { return r.p50 }, func(r loneRun) time.Duration { return r.p99 }
	fmt.Fprintf(b, `
## A lone caller

One caller, one order after the other: %d paired runs of %d orders with group commit and without it (Batch 1), which
side is first changes from pair to pair.

| | p50 µs | p99 µs |
|---|---:|---:|
| group commit on | %.0f | %.0f |
| off | %.0f | %.0f |
| on ÷ off | %v | %v |
`, len(r.lone), loneOrders, spreadOf(of(on, p50)).median, spreadOf(of(on, p99)).median, spreadOf(of(off, p50)).median,
		spreadOf(of(off, p99)).median, spreadOf(ratios(of(on, p50), of(off, p50))), spreadOf(ratios(of(on, p99), of(off, p99))))
}

func (r report) writeNeighbour(b *strings.Builder) {
	fmt.Fprintf(b, `
## A neighbour on the same Redis

Another client spends a ticket (GETDEL) every %v, without and beside %d callers whose flights keep Redis busy; %d
turns of %v, in milliseconds.

| | p50 | p99 | longest |
|---|---:|---:|---:|
`, neighbourEvery, stockCallers, len(r.neighbour), r.opt.step)
	for _, side := range []struct {
		name string
		of   func(neighbourPair) neighbourTurn
	}{
		{"alone", func(p neighbourPair) neighbourTurn { return p.quiet }},
		{"beside the storm", func(p neighbourPair) neighbourTurn { return p.storm }},
	} {
		ms := func(q func(neighbourTurn) time.Duration) spread {
			return spreadOf(each(r.neighbour, func(p neighbourPair) float64 { return micros(q(side.of(p))) / 1000 }))
		}
		fmt.Fprintf(b, "| %s | %v | %v | %v |\n", side.name, ms(func(t neighbourTurn) time.Duration { return t.p50 }),
			ms(func(t neighbourTurn) time.Duration { return t.p99 }), ms(func(t neighbourTurn) time.Duration { return t.max }))
	}
}
