// Package metrics exports metrics in addition to controller-runtime's own: the state of
// each ProfileSource and each pool, and the cost of work.
//
// It stores states, not series: a scrape builds the current series, so that ten thousand
// pools cost little between scrapes, and deleted objects leave no series. Labels are
// names, versions, commits and fixed words, never messages, URLs or content of a Secret.
//
// Start with Metrics in metrics.go; table.go has every name, and docs/metrics.md is
// generated from it.
package metrics
