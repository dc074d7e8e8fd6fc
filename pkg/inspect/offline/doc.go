// Package offline writes the objects that pkg/inspect/trace reads from live clusters into a snapshot
// without credentials, and serves a snapshot to the packages of pkg/inspect in place of the
// clusters. lineage/dump.Snapshot is the format.
//
// It does not use controller-runtime's client/fake: that decodes every object before the first
// request and copies all objects of a kind for each list, while a snapshot can have gigabytes; it
// needs an index for each field selector, and a function for each kind that could not be read; and
// it adds client-go/testing to the program.
//
// Start with Write in write.go and NewClusters in offline.go.
package offline
