package history

// What a history may cost.
const (
	// MaxLineEntries is the number of tree entries that all comparisons of one history look at.
	MaxLineEntries = 20_000_000
	// MaxLineCommits is the length of a first-parent history. A commit every five
	// minutes for two years makes 210,000.
	MaxLineCommits = 250_000
	// MaxChanges is the number of file changes in a history, each about 150 bytes in memory.
	MaxChanges = 500_000
	// MaxKeptChanges is how many changes of files a mirror keeps in memory, each about
	// 150 bytes, over all histories (a path on a branch) that are read from it. One that
	// was dropped costs its whole walk again, at every read.
	MaxKeptChanges = 1_000_000
	// maxComparedDepth is deeper than any path of at most 4096 bytes people make.
	maxComparedDepth = 256
)
