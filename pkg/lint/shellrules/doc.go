// Package shellrules looks at what a node gets for things that work and that a reviewer
// would object to: a download that nobody checks, a credential that everybody may
// read, a script that goes on after a failure.
//
// Scripts are read by a parser of shell, never by regular expressions: a comment, a
// here-document and a quoted text are what they are. A rule that finds something is to
// be right; where it takes running the script to know, it says nothing.
//
// Start with Check in check.go, which the engine of lint calls; rules.go of pkg/lint has the
// name and the text of each rule.
package shellrules
