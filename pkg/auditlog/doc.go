// Package auditlog writes entries for auditors to an append-only file: one line of JSON
// each, with the hash of the line before. Whoever has the hash of some line can tell
// whether anything before it was changed, removed or inserted.
//
// It knows nothing of clusters, and takes the time from a clock that it is given. Its
// callers make sure that no fact contains a credential. A line that was written may be
// written again, if a process ended before it could record that it was: its id is the
// same. No fact is lost for which Append has returned.
//
// Start with Fact in fact.go. chain.go makes and checks lines, log.go writes a file,
// verify.go reads files, and writer.go is what controllers use.
package auditlog
