// Package ui is the audit page: which commit every node runs, what a commit changed, and
// the evidence for it, as HTML for people and as JSON for programs.
//
// It only reads. Pages are built from a fleet.Model, the state of the cluster at one moment,
// and HTML and JSON from the same content, which package view has. Untrusted text (authors,
// file names, messages) is truncated and escaped and never contains markup (security.md
// 28). No credential reaches this package: configurations contain placeholders.
//
// Start with ServeHTTP in serve.go. auth.go decides who is admitted, layout.go how a page
// looks.
package ui
