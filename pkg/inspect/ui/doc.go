// Package ui is the audit page: which commit every node runs, what a commit changed, and
// the evidence for it, as HTML for people and as JSON for programs.
//
// It only reads. Pages are built from Facts, the state of the cluster at one moment. The
// views of it (fleet.go, pool.go, commit.go, node.go, search.go) are pure functions, and
// HTML and JSON are built from the same view. Untrusted text (authors, file names,
// messages) is truncated and escaped and never contains markup (security.md 28). No
// credential reaches this package: configurations contain placeholders.
//
// Start with ServeHTTP in serve.go. auth.go decides who is admitted, snapshots.go when the
// cluster is read again.
package ui
