// Package equivalence compares two documents that a machine boots from by what they mean
// to it: one that the reference implementation made, and one of ours. The deliberate
// differences between the two are none: the version of Ignition, units that are files
// outside Flatcar, scalars of modules, commands that are lists, how an age prints, the order of files.
//
// It decides nothing: whoever takes over a running cluster replaces what differs and
// keeps the rest, and the conformance tests fail on any difference.
//
// Start with Compare.
package equivalence
