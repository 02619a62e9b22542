package main

import (
	"fmt"
	"strings"
	"time"
)

func (r report) writeMemory(b *strings.Builder) {
	fmt.Fprintf(b, `
## Redis memory of a reservation

The difference of used_memory over %s reservations of one unit, users with names of 16 bytes and a limit of one
unit, read when the callers' connections are closed. Direct sales; the queued mode does not exist yet.

| when | bytes a reservation |
|---|---:|
| reserved | %.0f |
| confirmed, with a shop's order number of 15 bytes | %.0f |
| after sweeps, when nothing stands in a list any more | %.0f |
`, whole(memoryOrders), r.memory.reserved, r.memory.settled, r.memory.swept)
}

func (r report) writeMasters(b *strings.Builder) {
	fmt.Fprintf(b, `
## Calls per master, three masters against one

Real clusters, %s orders of %d callers each; EVALSHA by INFO commandstats of each master.

| | the only master | each of three | of the only one |
|---|---:|---|---|
`, whole(mastersOrders), stockCallers)
	for _, c := range r.masters {
		name := "one script an order"
		if c.batch != 1 {
			name = "shared flights"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, whole(float64(c.one)), joined("%.0f", c.each), joined("%.3f", c.shares()))
	}
	b.WriteString(`
Flights are fuller the fewer masters share the orders, so the share of shared calls says little; their orders were
spread like this: ` + joined("%.0f", r.masters[len(r.masters)-1].units) + ".\n")
}

func joined[T int64 | float64](form string, all []T) string {
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprintf(form, float64(v)))
	}
	return strings.Join(out, ", ")
}

func (r report) writeFaults(b *strings.Builder) {
	fmt.Fprintf(b, `
## What faults do to a sale

A real cluster of three masters with a replica each and two weirs; %d buyers at a time storm %s units, one for each
order, while one bucket's master is harmed. When weir pauses the sale by itself, an operator puts back what the
shop's orders know (Restore, as weir sale reconcile --apply does) and resumes it, a second later. Sums of %d rounds each.

* told: wins that buyers were told. Oversold: units beyond the sale, told or in the books.
* lost: wins that were told and that Redis had no longer, after weir had replayed what it remembers of the last 30 s;
  put back: of those, by the operator. Undetected: lost, and the sale neither paused nor found wanting.
* recovery: the longest time without a win in the harmed bucket, the longest round. A node counts as dead after 1 s.

| harm | told | oversold | lost | put back | undetected | pauses | audit clean | unknown at first | recovery |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`, r.faults[0].plan.Buyers, whole(float64(r.faults[0].plan.Units)), r.opt.rounds)
	for i := 0; i < len(r.faults); i += r.opt.rounds {
		r.writeHarm(b, r.faults[i:i+r.opt.rounds])
	}
	b.WriteString(`
With appendonly and a replica but without WAIT, a reply can leave before the replica has the change: what was told
in that moment is lost with the master. Weir tells the new master again what it remembers; what nobody remembers
is found by the gap in the ledger's numbers, and the sale pauses. With WAIT 1 nothing that was told is lost.
`)
}

func (r report) writeHarm(b *strings.Builder, rounds []faultCount) {
	var sum struct {
		told, lost, restored, undetected, pauses, clean, unknown int
		oversold                                                 int64
		recovery                                                 time.Duration
	}
	for _, f := range rounds {
		c := f.got
		sum.told, sum.lost, sum.restored = sum.told+c.Told, sum.lost+c.Lost, sum.restored+c.Restored
		sum.undetected, sum.pauses, sum.unknown = sum.undetected+c.Undetected, sum.pauses+c.Pauses, sum.unknown+c.Unknown
		sum.oversold, sum.recovery = sum.oversold+c.Oversold, max(sum.recovery, c.Recovery)
		if c.Clean {
			sum.clean++
		}
	}
	fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d | %d of %d | %d | %.2f s |\n", rounds[0].plan.Name(), sum.told, sum.oversold,
		sum.lost, sum.restored, sum.undetected, sum.pauses, sum.clean, len(rounds), sum.unknown, sum.recovery.Seconds())
}
