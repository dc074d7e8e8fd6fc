package objectstore

// Limits on the objects of a repository.
const (
	maxTreeBytes     = 8 << 20  // 8 MiB: some 200,000 entries in one folder
	MaxCommitBytes   = 1 << 20  // 1 MiB of message and signatures
	maxCachedBytes   = 16 << 20 // 16 MiB per mirror: contents of profile files that are cached between snapshots
	objectCacheBytes = 32 << 20 // 32 MiB per mirror: delta bases and trees that neighboring commits share

	// MaxCommits is the number of commits of a whole history, each about 150 bytes in
	// memory.
	MaxCommits = 1_000_000
)
