// Package bootcounts counts the boots of machines by the version of their profile, and finds the
// version with which the machines of a pool stopped joining, and its commits.
//
// It counts in a fleet.Model and formats nothing. Only ListUnjoined reads a cluster, for the machines
// that have no Node. Start with Count.
package bootcounts
