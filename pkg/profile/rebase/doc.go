// Package rebase finds overlays whose base has a newer version, compares the results on
// both, and writes the newer version into their files. It writes no file itself.
//
// Start with CheckOutdated and Compare in rebase.go.
package rebase
