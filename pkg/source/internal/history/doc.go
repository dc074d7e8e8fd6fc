// Package history reads the first-parent history of profile files, tests ancestry, and
// finds who changed a path. Start reading at Cache.FirstParentHistory, which caches
// histories between reads, then LastChange and FirstParents.
//
// Recent is our own because its limit is a number of changes: k8s.io/utils/lru counts
// entries.
package history
