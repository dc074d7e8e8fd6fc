// Package dryrun runs the controllers of the other packages against a cluster that is
// read and never written: their writes are stored in memory, and their reads return the
// cluster with these writes. So the controllers themselves show what they would do.
//
// It does not predict what the API server or admission webhooks would reject: it enforces
// what those controllers rely on, which are existence, versions, UIDs and immutable
// Secrets.
//
// Start with Rehearsal in rehearsal.go: world.go has the cluster, report.go the result,
// observer.go reports it on ProfileSources.
package dryrun
