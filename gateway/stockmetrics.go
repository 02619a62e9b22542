package gateway

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/inventory"
)

// stockWatcher reads the stock's own figures when it is scraped. Its labels are
// the sales and buckets that exist.
type stockWatcher struct{ stock *inventory.Store }

var (
	descStock    = prometheus.NewDesc("weir_stock_units", "Units of a sale by state.", []string{"sale", "state"}, nil)
	descTotal    = prometheus.NewDesc("weir_stock_total_units", "Units of a sale, whatever their state.", []string{"sale"}, nil)
	descBucket   = prometheus.NewDesc("weir_bucket_units", "Units of a bucket by state.", []string{"sale", "bucket", "state"}, nil)
	descFlights  = prometheus.NewDesc("weir_stock_flights_total", "Reserve scripts; several orders share one.", nil, nil)
	descOrders   = prometheus.NewDesc("weir_stock_orders_total", "Orders that those scripts carried.", nil, nil)
	descLoans    = prometheus.NewDesc("weir_stock_loans_total", "Loans between buckets.", nil, nil)
	descLost     = prometheus.NewDesc("weir_stock_lost_total", "Findings that Redis has forgotten stock. Any is an alarm.", nil, nil)
	descRefused  = prometheus.NewDesc("weir_preheat_refused_total", "Preheats that were refused.", nil, nil)
	descReplicas = prometheus.NewDesc("weir_replicas", "Replicas alive, as this one sees it.", nil, nil)
	descLead     = prometheus.NewDesc("weir_preheat_lead_seconds", "How long before its start a sale was preheated.", []string{"sale"}, nil)
	descReadable = prometheus.NewDesc("weir_preheat_readable_ratio", "Part of a sale's buckets that were readable at the last look.", []string{"sale"}, nil)
	descSource   = prometheus.NewDesc("weir_preheat_back_to_source_ratio", "Part of a sale's orders that found no preheated stock.", []string{"sale"}, nil)
)

// Describe implements prometheus.Collector.
func (w stockWatcher) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descStock, descTotal, descBucket, descFlights, descOrders, descLoans, descLost, descRefused, descReplicas, descLead, descReadable, descSource,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w stockWatcher) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	for _, v := range w.stock.Views() {
		id := strings.ToValidUTF8(v.Sale.ID, "?")
		gauge(descTotal, float64(v.Level.Total), id)
		gauge(descStock, float64(v.Level.Free), id, "free")
		gauge(descStock, float64(v.Level.Reserved), id, "reserved")
		gauge(descStock, float64(v.Level.Confirmed), id, "confirmed")
		gauge(descStock, float64(v.Level.OnLoan), id, "on_loan")
		for _, b := range v.Level.Buckets {
			n := strconv.Itoa(b.Index)
			gauge(descBucket, float64(b.Free), id, n, "free")
			gauge(descBucket, float64(b.Reserved), id, n, "reserved")
			gauge(descBucket, float64(b.Confirmed), id, n, "confirmed")
		}
		p := v.Preheat
		gauge(descLead, p.Lead.Seconds(), id)
		if !v.Gone {
			gauge(descReadable, p.Readable, id)
		}
		gauge(descSource, p.BackToSource, id)
	}
	s := w.stock.Stats()
	counter(descFlights, s.Flights)
	counter(descOrders, s.Orders)
	counter(descLoans, s.Loans)
	counter(descLost, s.Lost)
	counter(descRefused, s.Refused)
	gauge(descReplicas, float64(s.Replicas))
}
