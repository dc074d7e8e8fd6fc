// Package offline writes what pkg/inspect/trace reads of live clusters into a snapshot
// without credentials, and serves a snapshot to the packages of pkg/inspect as if it were
// the clusters. lineage.ClusterSnapshot is the format.
//
// It does not use controller-runtime's client/fake: that decodes every object before the
// first question and copies all of a kind for each list, whereas a snapshot may have
// gigabytes; it needs an index for each field that is selected by, and a function for each
// kind that could not be read; and it adds client-go/testing to the program.
//
// Start with Write in write.go and Clusters in offline.go.
package offline
