package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"weir/gateway/admin"
	"weir/inventory/archive"
)

// copyWatcher reads how the copies to the archive go when it is scraped.
type copyWatcher struct{ copier *archive.Copier }

var (
	descCopied     = prometheus.NewDesc("weir_archive_rows", "Reservations of a sale at its last good copy.", []string{"sale"}, nil)
	descCopyLag    = prometheus.NewDesc("weir_archive_lag_seconds", "Since when the ledger may hold what the archive lacks.", []string{"sale"}, nil)
	descCopyFailed = prometheus.NewDesc("weir_archive_failures_total", "Copies of a sale that failed, on this replica.", []string{"sale"}, nil)
)

// Describe implements prometheus.Collector.
func (w copyWatcher) Describe(ch chan<- *prometheus.Desc) {
	ch <- descCopied
	ch <- descCopyLag
	ch <- descCopyFailed
}

// Collect implements prometheus.Collector.
func (w copyWatcher) Collect(ch chan<- prometheus.Metric) {
	for _, s := range w.copier.Status() {
		ch <- prometheus.MustNewConstMetric(descCopied, prometheus.GaugeValue, float64(s.Rows), s.Sale)
		ch <- prometheus.MustNewConstMetric(descCopyLag, prometheus.GaugeValue, s.Lag.Seconds(), s.Sale)
		ch <- prometheus.MustNewConstMetric(descCopyFailed, prometheus.CounterValue, float64(s.Failures), s.Sale)
	}
}

// archiveNow copies one sale for the console.
func (p *program) archiveNow(ctx context.Context, sale string) (admin.Archived, error) {
	done, err := p.copier.Copy(ctx, sale)
	if err != nil {
		return admin.Archived{}, err
	}
	return admin.Archived{
		Sale: done.Sale, Rows: done.Rows, Open: done.Open, Complete: done.Complete, Missing: done.Missing, Deleted: done.Deleted,
	}, nil
}
