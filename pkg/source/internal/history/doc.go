// Package history reads the first-parent history of profile files, what is in the history
// of a commit, and who changed a path. Start reading at Lines.Of, which stores histories
// between reads, then ChangeOf and FirstParents.
//
// Recent is our own because it is bounded by changes: k8s.io/utils/lru counts entries.
package history
