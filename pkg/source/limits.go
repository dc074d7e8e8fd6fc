package source

// Limits of one source.
const (
	defaultMaxPackBytes = 512 << 20 // 512 MiB, on disk

	// maxConcurrent is the number of mirrors that are written and read at a time, and of
	// artifacts: the first fetch of a long history takes about 300 MiB of memory.
	maxConcurrent = 4
	// maxCachedRefs is the number of references up to which a list of references is cached
	// for other sources. Each takes about 150 bytes of memory.
	maxCachedRefs = 20_000
)
