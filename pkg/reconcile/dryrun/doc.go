// Package dryrun lets the controllers of the other packages run against a cluster
// that is read and never written: what they write is kept in memory, and what they read
// is the cluster with that on top. So it knows what the controller would do, from the
// controller itself.
//
// It does not foresee what the API server, or somebody's admission, would refuse: it
// enforces what those controllers rely on, which are existence, versions, UIDs and
// immutable Secrets.
//
// Start with Rehearsal in rehearsal.go: world.go has the cluster, report.go what comes of
// it, observer.go what says it on ProfileSources.
package dryrun
