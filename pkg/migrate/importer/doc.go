// Package importer converts the profiles of a cluster to files. For each
// OperatingSystemProfile it decides whether it becomes a file, an overlay on another
// profile, or nothing because the built-in one is equivalent. It writes readable files, and
// reports everything that osm-gitops rejects although the reference implementation accepts
// it.
//
// It is a pure function from objects to files and a report: it writes no file and accesses
// no cluster, and it contains no credentials: it renders for the pools of lint/matrix.
//
// Start with New in plan.go.
package importer
