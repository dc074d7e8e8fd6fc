// Package metrics is what Prometheus is told beside controller-runtime's own
// metrics: what each ProfileSource and each pool has, and what it cost.
//
// It keeps facts, not series: a scrape makes the series of what is there then, so
// that ten thousand pools cost little between scrapes, and what is gone leaves
// nothing behind. Labels are names, versions, commits and fixed words, never
// messages, URLs or anything of a Secret.
//
// Start with Metrics in metrics.go; table.go has every name, and docs/metrics.md is
// made from it.
package metrics
