// Package auditlog keeps the journal of a controller that runs: it opens it once this
// replica leads, keeps in memory what could not be written, and counts.
//
// Provisioning never waits for it. What a controller can derive again from an object,
// it gives to Append, and notes on the object that it is kept; what only happens once,
// it gives to Tell. It never decides what is told.
//
// Start with Journal in journal.go.
package auditlog
