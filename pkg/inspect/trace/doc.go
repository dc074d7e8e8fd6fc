// Package trace answers, from the objects in the clusters, which commit a node was provisioned from:
// it follows the chain from a Node to its machine, pool, configuration, record and profile, and to
// the commit and the source of the profile.
//
// It only reads, and it never guesses: every step of a Result has a state (found, removed, missing,
// edited, foreign, unreadable), and contradictions are listed. Untrusted text is sanitized before
// it becomes part of a Result (security.md 28). Of Secrets only metadata is read.
//
// Start with Clusters in clusters.go and Result in trail.go. node.go begins at a node or a machine,
// pool.go at an object of a pool, profile.go at a profile, born.go at a commit. record.go reads the
// other inputs that are needed to render a generation again.
package trace
