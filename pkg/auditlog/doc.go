// Package auditlog writes entries for auditors to an append-only file: one line of JSON
// each, with the hash of the previous line. With the hash of a line, an auditor can detect
// whether anything before it was changed, removed or inserted.
//
// It does not access clusters, and uses an injected clock. Its callers ensure that events
// contain no credentials. A line can be written twice, with the same id, if a process ended
// before it could record the first write. No event is lost once Append has returned.
//
// Start with Event in event.go. chain.go formats and checks lines, log.go writes a file,
// verify.go reads files, and controllers use writer.go.
package auditlog
