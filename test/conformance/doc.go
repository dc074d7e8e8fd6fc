// Package conformance reads the conformance corpus and compares our rendered documents with those
// of the reference implementation: by meaning, with every deliberate difference documented in the
// code that makes it.
//
// The corpus is not part of this repository. It is read from $OSM_CONFORMANCE, otherwise from a
// folder next to the repository; without it the tests that need it are skipped with that reason.
//
// Start with Cases in cases.go and CompareUserData in userdata.go.
package conformance
