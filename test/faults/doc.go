// Package faults_test stops and restarts the controller, the API server and its storage while pools
// are created and rotated, on a real control plane.
//
// After every fault each pool has exactly the documents of a fresh render by the command, one
// token, and no other objects; an observer that ran all the time saw no absent Secret, no document
// of an old template under a new revision, and no new bootstrap document paired with an old
// provisioning one. OSM_SOAK=1 makes the runs long.
//
// Changes of the clock are not among the faults: a process cannot be given its own clock, and a
// test must not change the machine's. pkg/reconcile/pools tests them with an injected clock, and
// shows that a running controller notices.
package faults_test
