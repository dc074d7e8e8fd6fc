// Package equivalence compares the effect of two documents that a machine boots from: one that
// operating-system-manager wrote, and one of ours. It does not report the deliberate
// differences between the two: the version of Ignition, units that are files outside of
// Flatcar, scalars of modules, commands that are lists, the format of an age, the order of
// files.
//
// It decides nothing: the takeover of a running cluster replaces what differs and leaves the
// rest, and the conformance tests fail on any difference.
//
// Start with Compare.
package equivalence
