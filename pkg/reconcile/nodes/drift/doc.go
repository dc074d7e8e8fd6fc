// Package drift reads what a node reports about its files and units, and concludes how it
// differs from its configuration. It is pure: it reads and writes nothing, and never
// believes more than that a node reports it.
//
// The node itself compares its files with the manifest that it was provisioned with
// (profiles/parts/match.sh). Start with Parse in report.go; compare.go reduces a Report to what a
// manifest has, and conclude.go makes status and conditions of it.
package drift
