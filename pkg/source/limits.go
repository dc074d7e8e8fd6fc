package source

// What one source may cost.
const (
	defaultMaxPackBytes = 512 << 20 // 512 MiB, on disk

	// maxTurns is how many mirrors are written and read at a time, and how many artifacts:
	// the first fetch of a long history takes some 300 MiB of memory.
	maxTurns = 4
	// maxKeptRefs is how many references an answer may have that is kept for other
	// sources, each about 150 bytes in memory.
	maxKeptRefs = 20_000
)
