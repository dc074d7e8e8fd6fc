// Package ui is the audit page: which commit every node runs, what a commit
// changed, and how that is known, as HTML for people and as JSON for programs.
//
// It only reads. A page is made from Facts, which is what the cluster held at one
// moment; the views of it (fleet.go, pool.go, commit.go, node.go, search.go) are pure
// functions, and HTML and JSON are made from the same view. Everything that strangers
// wrote (authors, file names, messages) is cut to what is shown and escaped, never
// marked up (security.md 28). Nothing here has ever seen a credential: configurations
// hold placeholders.
//
// Start with ServeHTTP in serve.go. auth.go decides who may look, snapshots.go when
// the cluster is read again.
package ui
