// Package shellrules checks the files, scripts and units that a node gets for constructs that
// work, but that a reviewer would object to: unverified downloads, credentials that every user
// can read, scripts that continue after a failure.
//
// It parses scripts as shell and does not search them with regular expressions, so it
// distinguishes comments, here-documents and quoted text. Findings must be correct: if a
// decision requires running the script, there is no finding.
//
// Start with Check in check.go, which the engine of lint calls; rules.go of pkg/lint has the
// name and the text of each rule.
package shellrules
