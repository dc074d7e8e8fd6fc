// Package conformance reads the conformance corpus and compares what we render
// with what the reference implementation rendered: by meaning, with every
// deliberate difference written down where it is made.
//
// The corpus is no part of this repository. It is looked for where
// $OSM_CONFORMANCE points, else beside the repository; without it the tests that
// need it are skipped and say so.
//
// Start with Cases in cases.go and CompareUserData in userdata.go.
package conformance
