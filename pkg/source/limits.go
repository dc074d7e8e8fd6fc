package source

// What one source may cost.
const (
	// maxWatched is the number of folders that one source has the kernel watch, which
	// takes about 1 KiB of its memory for each (inotify(7): max_user_watches).
	maxWatched = 4096

	defaultMaxPackBytes = 512 << 20 // 512 MiB, on disk

	// maxTurns is how many mirrors are written and read at a time, and how many artifacts:
	// the first fetch of a long history takes some 300 MiB of memory.
	maxTurns = 4
	// maxKeptRefs is how many references an answer may have that is kept for other
	// sources, each about 150 bytes in memory.
	maxKeptRefs = 20_000
)
