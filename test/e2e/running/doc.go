// Package running tests the controller while it runs: restarts, rotations, rollouts, several replicas, shards
// and clusters, and how a cluster comes from the reference and goes back to it.
package running
