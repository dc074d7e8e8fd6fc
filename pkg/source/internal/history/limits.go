package history

// Limits on a history.
const (
	// MaxLineEntries is the number of tree entries in all comparisons of one history.
	MaxLineEntries = 20_000_000
	// MaxLineCommits is the length of a first-parent history. A commit every five minutes
	// for two years gives 210,000.
	MaxLineCommits = 250_000
	// MaxChanges is the number of file changes in a history, each about 150 bytes in memory.
	MaxChanges = 500_000
	// MaxCachedChanges is the number of file changes that a mirror caches in memory, each
	// about 150 bytes, over all histories (a path on a branch) that are read from it. A
	// history that was dropped needs its whole walk again, at every read.
	MaxCachedChanges = 1_000_000
	// maxComparedDepth is deeper than the folders of any path of 4096 bytes that users
	// create.
	maxComparedDepth = 256
)
