package packindex

// Limits on a pack and its objects.
const (
	MaxObjectBytes   = 32 << 20  // 32 MiB: indexing a pack holds a few objects in memory
	maxDeltaBytes    = 96 << 20  // 96 MiB: objects that indexing holds in memory because more deltas are based on them
	maxInflatedBytes = 8 << 30   // 8 GiB: all objects of a pack, inflated and hashed one by one; about a minute
	maxChainBytes    = 256 << 20 // 256 MiB: deltas in one chain, which go-git holds in memory together to read the last
	MaxObjects       = 1 << 20   // indexing a pack takes about 200 bytes of memory for each
	maxDeltaDepth    = 4095      // deltas in one chain; git's own limit: https://git-scm.com/docs/git-pack-objects, --depth
)
