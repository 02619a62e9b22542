package inventory

import "sync/atomic"

// counters are what happened in this process.
type counters struct {
	lost, scripts, orders, refused, stale, loans, lentUnits atomic.Int64
}

// Stats are counts since the process began.
type Stats struct {
	Flights  int64 // reserve scripts
	Orders   int64 // orders that they carried
	Refused  int64 // preheats that were refused
	Stale    int64 // reserves that found no preheated stock: back to source
	Loans    int64 // loans between buckets
	Units    int64 // units that they moved
	Lost     int64 // findings of lost stock
	Replicas int64 // alive at the last reading
}

// Stats reads them. No I/O.
func (s *Store) Stats() Stats {
	c := &s.seen
	return Stats{
		Flights: c.scripts.Load(), Orders: c.orders.Load(), Refused: c.refused.Load(), Stale: c.stale.Load(),
		Loans: c.loans.Load(), Units: c.lentUnits.Load(), Lost: c.lost.Load(),
		Replicas: s.views.Load().replicas,
	}
}
