package objectstore

// Limits on a pack and its objects.
const (
	MaxObjectBytes   = 32 << 20  // 32 MiB: indexing a pack holds a few objects in memory
	maxDeltaBytes    = 96 << 20  // 96 MiB: objects that indexing holds in memory because more deltas are based on them
	maxInflatedBytes = 8 << 30   // 8 GiB: all objects of a pack, inflated and hashed one by one; about a minute
	maxChainBytes    = 256 << 20 // 256 MiB: deltas in one chain, which go-git holds in memory together to read the last
	maxPackObjects   = 1 << 20   // indexing a pack takes about 200 bytes of memory for each
	maxDeltaDepth    = 4095      // deltas in one chain; git's own limit: https://git-scm.com/docs/git-pack-objects, --depth
	maxTreeBytes     = 8 << 20   // 8 MiB: some 200,000 entries in one folder
	MaxCommitBytes   = 1 << 20   // 1 MiB of message and signatures
	maxCachedBytes   = 16 << 20  // 16 MiB per mirror: contents of profile files that are cached between snapshots
	objectCacheBytes = 32 << 20  // 32 MiB per mirror: delta bases and trees that neighboring commits share

	// MaxCommits is the number of commits of a whole history, each about 150 bytes in
	// memory.
	MaxCommits = 1_000_000
)

// Limits on the storage of a mirror.
const (
	// MaxPacks is the number of packs at which a mirror is fetched again, as one pack:
	// every push adds a pack, and each costs a lookup per object and a file descriptor.
	MaxPacks = 48
	// maxUnmergedPacks is this number if the disk seems to have no space for it.
	maxUnmergedPacks = 4 * MaxPacks
	// reservedBytes is the space that a pack of more than smallPackBytes leaves on the disk:
	// other repositories, most of them small, are still fetched into a folder of 64 MiB.
	reservedBytes  = 4 << 20
	smallPackBytes = 1 << 20
	// maxTips is the number of heads that a mirror records, to report them to the server.
	maxTips = 32
	// maxHaves is the number of commits reported to the server. Git sends 256 in its
	// first round.
	maxHaves = 256
	// MaxWants limits a fetch of all branches, for servers that serve commits by branch
	// only.
	MaxWants = 5000
)
