// Package dryrun runs the controllers of the other packages against a cluster that is
// read and never written: their writes are stored in memory, and their reads return the
// cluster with these writes. So the controllers themselves show what they would do.
//
// Start with DryRun in rehearsal.go: package virtual has the clusters, report.go the result,
// observer.go reports it on ProfileSources.
package dryrun
