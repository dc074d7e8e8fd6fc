package objectstore

// What a pack and the objects in it may cost.
const (
	MaxObjectBytes   = 32 << 20  // 32 MiB: indexing a pack holds a few objects in memory
	maxDeltaBytes    = 96 << 20  // 96 MiB: objects that indexing holds because more deltas build on them
	maxInflatedBytes = 8 << 30   // 8 GiB: all objects of a pack, inflated and hashed one by one; about a minute
	maxChainBytes    = 256 << 20 // 256 MiB: deltas that build on each other, which go-git holds together to read the last
	maxPackObjects   = 1 << 20   // indexing a pack takes about 200 bytes of memory for each
	maxDeltaDepth    = 4095      // deltas that build on each other; git makes no more: https://git-scm.com/docs/git-pack-objects, --depth
	maxTreeBytes     = 8 << 20   // 8 MiB: some 200,000 entries in one folder
	MaxCommitBytes   = 1 << 20   // 1 MiB of message and signatures
	maxKeptBytes     = 16 << 20  // 16 MiB per mirror: contents of profile files, kept from one snapshot to the next
	objectCacheBytes = 32 << 20  // 32 MiB per mirror: delta bases and trees that neighboring commits share

	// MaxCommits is the number of commits of a whole history, each about 150 bytes
	// in memory.
	MaxCommits = 1_000_000
)

// How a mirror is stored.
const (
	// MaxPacks is when a mirror is fetched again, as one pack: every push leaves one, and
	// each costs a lookup per object and a file descriptor.
	MaxPacks = 48
	// maxCrowdedPacks is when it is although the disk seems to have no room for it.
	maxCrowdedPacks = 4 * MaxPacks
	// maxTips is how many heads a mirror remembers, to tell the server what it has.
	maxTips = 32
	// maxHaves is how many commits we tell the server. Git sends 256 in its first round.
	maxHaves = 256
	// MaxWants bounds a fetch of all branches, where a server gives out commits by branch only.
	MaxWants = 5000
)
