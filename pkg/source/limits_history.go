package source

// What a history may cost.
const (
	// maxLineEntries is the number of tree entries that all comparisons of one history look at.
	maxLineEntries = 20_000_000
	// maxLineCommits is the length of a first-parent history. A commit every five
	// minutes for two years makes 210,000.
	maxLineCommits = 250_000
	// maxChanges is the number of file changes in a history, each about 150 bytes in memory.
	maxChanges = 500_000
	// maxKeptChanges is how many changes of files a mirror keeps in memory, each about
	// 150 bytes, over all histories (a path on a branch) that are read from it. One that
	// was dropped costs its whole walk again, at every read.
	maxKeptChanges = 1_000_000
	// maxComparedDepth is deeper than any path of at most 4096 bytes people make.
	maxComparedDepth = 256
)
