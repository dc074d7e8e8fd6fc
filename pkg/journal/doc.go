// Package journal keeps facts for auditors in an append-only file: one line of JSON
// each, with the hash of the line before. Whoever has the hash of some line can tell
// whether anything before it was changed, left out or put in.
//
// It knows nothing of clusters, and takes the time from a clock that it is given. What
// a fact holds its caller answers for: no credential ever. A line that was kept may be
// kept again, where a process ended before it could note that it was: its id is the
// same. None is lost of what Append has returned for.
//
// Start with Fact in fact.go. chain.go makes and checks lines, log.go writes a file,
// verify.go reads files.
package journal
