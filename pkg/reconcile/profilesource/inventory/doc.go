// Package inventory decides, without a cluster, which profiles a ProfileSource offers, compared with
// its inventory and with other sources, and what the next inventory contains. Start with NewPlan and
// NextEntries.
package inventory
