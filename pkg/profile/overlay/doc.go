// Package overlay applies overlays to their bases, with the file and line of every text in
// the result. It does not search in a history: callers pass the base, or a BaseResolver.
//
// Start with Apply in apply.go; Assemble applies the overlays of files with one another.
package overlay
