package main

import (
	"fmt"
	"strings"
)

// report is bench/RESULTS.md.
type report struct {
	opt      options
	host     host
	others   float64 // share of the cores that other programs used meanwhile
	refusals []refusalResult
	reserves []cell
	stock    []stockCell

	lone      []lonePair
	neighbour []neighbourPair
	soldOut   []float64 // checks per second
	memory    *weight
	masters   []clusterCalls
	faults    []faultCount
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Figures

Made by `+"`make bench`"+`, which overwrites this file.

* %d cores (%s), %s, %s, Redis %s
* other programs used %.0f %% of the cores during the run
* Each turn of one side is followed by one of the other, so a disturbance meets both. A ratio is made pair by
  pair; it is given as median (least – most). CPU is the user and system time of the server's process, divided by
  its answers, read in steps of 10 ms. The redis-server of weir is not in it: no refusal asks it.
`, r.host.cores, orUnknown(r.host.processor), r.host.goVersion, r.host.system, r.host.redis, 100*r.others)
	if len(r.refusals) > 0 {
		r.writeRefusals(&b)
	}
	if len(r.reserves) > 0 {
		r.writeReserves(&b)
	}
	r.writeRest(&b)
	return b.String()
}

func (r report) writeRefusals(b *strings.Builder) {
	fmt.Fprintf(b, `
## Refusals beside an empty fiber handler

The real program with its defaults, but with the judge off (it would ban the one caller) and, for "sold out", one
unit and no captcha. The empty handler is fiber with the same server settings in a process of its own; it answers
every request with a fixed body of the same length. Both get the same bytes (`+"`POST /buy/1001`"+` with a session
cookie) over %d keep-alive connections, in %d pairs of turns of %v.

| caller | server | answers/s | CPU µs/answer |
|---|---|---:|---:|
`, r.opt.conns, r.opt.pairs, r.opt.turn)
	for _, k := range r.refusals {
		e, w := k.sides()
		fmt.Fprintf(b, "| %s | empty fiber, %d bytes | %s | %.1f |\n", k.name, k.bodySize, whole(spreadOf(each(e, tally.perSecond)).median), spreadOf(each(e, tally.cpuMicros)).median)
		fmt.Fprintf(b, "| | weir, %d `%s` | %s | %.1f |\n", k.status, k.code, whole(spreadOf(each(w, tally.perSecond)).median), spreadOf(each(w, tally.cpuMicros)).median)
	}
	b.WriteString("\n| caller | answers/s, weir ÷ empty | CPU, weir ÷ empty | answers that were this refusal |\n|---|---:|---:|---:|\n")
	for _, k := range r.refusals {
		e, w := k.sides()
		fmt.Fprintf(b, "| %s | %v | %v | %.3f %% |\n", k.name,
			spreadOf(ratios(each(w, tally.perSecond), each(e, tally.perSecond))),
			spreadOf(ratios(each(w, tally.cpuMicros), each(e, tally.cpuMicros))), 100*k.right())
	}
	b.WriteByte('\n')
	for _, k := range r.refusals {
		fmt.Fprintf(b, "* %s: %s.\n", k.name, k.about)
	}
	b.WriteString(`
This shows what turning one caller away costs weir above the server it is built on, on this machine. It does not
show what a host carries: the load comes over loopback from a generator that takes its share of the same cores, so
answers per second are bounded by both, and one user from one address keeps every table small and every cache warm.
`)
}

func (k refusalResult) sides() (empty, weir []tally) {
	for _, p := range k.pairs {
		empty, weir = append(empty, p.empty), append(weir, p.weir)
	}
	return empty, weir
}

func (r report) writeReserves(b *strings.Builder) {
	fmt.Fprintf(b, `
## A reserve beside PING and one DECR, on a real Redis

`+"`inventory.Store.Reserve`"+` of one unit, each for another buyer, all of one sale and so of one bucket, beside PING and a
script of one DECR through the same client: a redis-server of its own on a unix socket, %d turns of %v of each
operation, one after the other. Every reserve counted is found in the stock afterwards.

| Redis | callers | operation | operations/s | Redis CPU µs | rate ÷ PING | rate ÷ DECR |
|---|---:|---|---:|---:|---:|---:|
`, r.opt.pairs, r.opt.step/2)
	for _, c := range r.reserves {
		rate := func(op int) []float64 { return each(c.turns[op], tally.perSecond) }
		for op, name := range opNames() {
			where, callers := "", ""
			if op == 0 {
				where, callers = c.durability, fmt.Sprint(c.callers)
			}
			against := [2]string{"", ""}
			if op > opPing {
				against[0] = spreadOf(ratios(rate(op), rate(opPing))).String()
			}
			if op > opDecr {
				against[1] = spreadOf(ratios(rate(op), rate(opDecr))).String()
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %.1f | %s | %s |\n", where, callers, name, whole(spreadOf(rate(op)).median),
				spreadOf(each(c.turns[op], tally.cpuMicros)).median, against[0], against[1])
		}
	}
	b.WriteString(`
This shows what one whole reserve (checks, ledger, buyer's limit, hold, attempt) costs beside the least that a round
trip and a script can cost. It does not show a sale: client and server share the cores, no network lies between
them, nothing is settled meanwhile, and with "appendfsync always" the figures are those of this machine's disk.
`)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown processor"
	}
	return s
}
