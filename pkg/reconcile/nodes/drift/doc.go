// Package drift reads what a node reports about its files and units, and concludes how it
// differs from its configuration. It is pure: it reads and writes nothing, and never
// believes more than that a node reports it.
//
// Start with Parse in report.go; conclude.go compares a Report with manifests.
package drift
