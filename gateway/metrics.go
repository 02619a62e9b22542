package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/limiter"
)

// metrics are the data plane's. Counters are resolved once per route and
// outcome; no label comes from a request.
type metrics struct {
	requests  [][kinds]prometheus.Counter // by route, then outcome
	seconds   prometheus.Histogram
	reserve   prometheus.Histogram
	upstream  prometheus.Histogram
	unsettled prometheus.Counter
	asked     *prometheus.CounterVec
	rows      map[string]int
}

func newMetrics(reg prometheus.Registerer, g *Gateway) *metrics {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_requests_total", Help: "Requests by route and outcome."}, []string{"route", "outcome"})
	m := &metrics{
		seconds:   histogram("weir_request_seconds", "Time in weir, from the request read to the answer made."),
		reserve:   histogram("weir_reserve_seconds", "Time of the reserve script as a caller waits for it."),
		upstream:  histogram("weir_upstream_seconds", "Time of one forward to the shop."),
		unsettled: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_unsettled_total", Help: "Answers of the shop that could not be settled at once; the sweep settles them."}),
		asked:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_shop_asked_total", Help: "Questions to the shop about open attempts, by what it said."}, []string{"answer"}),
		rows:      map[string]int{},
	}
	names := []string{"none"}
	for _, r := range g.routes {
		names = append(names, r.cfg.Name)
	}
	for _, r := range g.ownRoutes() {
		names = append(names, "weir_"+r.name)
	}
	for i, name := range names {
		m.rows[name] = i
		var row [kinds]prometheus.Counter
		for k := range kinds {
			row[k] = total.WithLabelValues(name, max(k, Forwarded).label())
		}
		m.requests = append(m.requests, row)
	}
	if reg != nil {
		reg.MustRegister(total, m.seconds, m.reserve, m.upstream, m.unsettled, m.asked, &watcher{g: g}, stockWatcher{g.deps.Stock})
	}
	return m
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
}

func (m *metrics) count(x *exchange, k Kind, took time.Duration) {
	row := 0
	switch {
	case x.route != nil:
		row = 1 + x.route.index
	case x.page != nil:
		row = m.rows["weir_"+x.page.name]
	}
	m.requests[row][k].Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) countRaw(k Kind) { m.requests[0][k].Inc() }

// watcher reads the parts' own figures when it is scraped.
type watcher struct{ g *Gateway }

var (
	descLimit    = prometheus.NewDesc("weir_limit_decisions_total", "Decisions of a limit layer.", []string{"layer", "decision"}, nil)
	descAway     = prometheus.NewDesc("weir_limit_away", "Keys of a rate that all replicas share whose Redis did not answer: this replica grants its own part.", []string{"layer"}, nil)
	descKeys     = prometheus.NewDesc("weir_limit_keys", "Keys that a limit layer remembers.", []string{"layer"}, nil)
	descEvicted  = prometheus.NewDesc("weir_limit_evicted_total", "Keys of a limit layer that had refilled and were forgotten for new ones.", []string{"layer"}, nil)
	descOverflow = prometheus.NewDesc("weir_limit_overflowed_total", "Requests whose key a limit layer had no room for, so that they shared a bucket.", []string{"layer"}, nil)
	descInFlight = prometheus.NewDesc("weir_limit_in_flight", "Concurrency slots of a limit layer that are held.", []string{"layer"}, nil)
	descOffences = prometheus.NewDesc("weir_offences_dropped_total", "Offences dropped because the judge was busy.", nil, nil)
	descBanned   = prometheus.NewDesc("weir_judge_bans_total", "Bans by the judge.", nil, nil)
	descBans     = prometheus.NewDesc("weir_blacklist_entries", "Entries in force on this replica.", nil, nil)
	descUnlogged = prometheus.NewDesc("weir_refusals_unlogged", "Refusals not logged since the last logged one.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *watcher) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLimit, descKeys, descAway, descEvicted, descOverflow, descInFlight, descOffences, descBanned, descBans, descUnlogged} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watcher) Collect(ch chan<- prometheus.Metric) {
	g := w.g
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for _, s := range g.limits() {
		for _, l := range s.Stats() {
			counter(descLimit, float64(l.Allowed), l.Name, "allowed")
			counter(descLimit, float64(l.Refused), l.Name, "refused")
			counter(descLimit, float64(l.Shadowed), l.Name, "shadow-refused")
			counter(descEvicted, float64(l.Evicted), l.Name)
			counter(descOverflow, float64(l.Overflowed), l.Name)
			gauge(descInFlight, float64(l.InFlight), l.Name)
			gauge(descKeys, float64(l.Keys), l.Name)
			if l.Scope == limiter.ScopeCluster {
				gauge(descAway, float64(l.Away), l.Name)
			}
		}
	}
	counter(descOffences, float64(g.judge.dropped.Load()))
	counter(descBanned, float64(g.judge.banned.Load()))
	gauge(descBans, float64(g.deps.Bans.Status().Entries))
	gauge(descUnlogged, float64(g.log.dropped.Load()))
}
