// Package faults_test takes the controller, the API server and its storage away from
// under pools that are created and rotated, on a real control plane.
//
// After every fault each pool has exactly what a fresh render by the command gives,
// one token, and nothing is left over; an observer that ran all the time saw no
// Secret absent, no document of an old template under a new revision, and no new
// bootstrap document beside an old provisioning one. OSM_SOAK=1 makes the runs long.
//
// Clocks that are set are not among the faults here: a process cannot be given a clock of
// its own, and that of the machine is not a test's to set. pkg/reconcile/pools shows with
// a clock that the test moves what comes of it, and that a running controller notices.
package faults_test
