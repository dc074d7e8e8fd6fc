package source

import "time"

// What a repository may cost us. Profiles are a few kilobytes each and there are
// dozens of them; each limit leaves a factor of a hundred and is still small
// beside the memory of a controller.
const (
	maxFileBytes  = 1 << 20  // 1 MiB: an object of the API server cannot be larger than 1.5 MiB
	maxFiles      = 2000     // files per snapshot, each of which may become an object
	maxTotalBytes = 64 << 20 // 64 MiB: all files of a snapshot, which are held in memory together
	maxRefusals   = 1000     // a list that a person still reads; more are counted in its last entry
	maxDepth      = 32       // folders below the source's path
	maxPathBytes  = 1024     // of the source's path, as the CRD says

	// maxWatched is the number of folders that one source has the kernel watch, which
	// takes about 1 KiB of its memory for each (inotify(7): max_user_watches).
	maxWatched = 4096
	// maxIgnoreBytes bounds one file of ignore rules, as the CRD does those of a source.
	maxIgnoreBytes = 16 << 10 // 16 KiB
	// maxIgnoreFiles is the number of such files in a tree.
	maxIgnoreFiles = 128
	// maxIgnoreCost is the number of times a name is compared with an ignore pattern,
	// for one tree and for a whole history; each takes some 30 ns.
	maxIgnoreCost = 50_000_000

	// maxEntries is the number of tree entries one walk looks at. Ten trees that
	// name each other ten times are a handful of objects and ten billion paths.
	maxEntries = 100_000
	// maxLineEntries is the same for all the comparisons of one history.
	maxLineEntries = 20_000_000
	// maxLineCommits is the length of a first-parent line. A commit every five
	// minutes for two years makes 210,000.
	maxLineCommits = 250_000
	// maxCommits is the number of commits of a whole history, each about 150 bytes
	// in memory.
	maxCommits = 1_000_000
	// maxChanges is the number of file changes on a line, each about 150 bytes in memory.
	maxChanges = 500_000
)

// What one response may cost us.
const (
	defaultMaxPackBytes = 512 << 20 // 512 MiB, on disk
	maxRefsBytes        = 32 << 20  // 32 MiB: some 400,000 references
	maxObjectBytes      = 32 << 20  // 32 MiB: indexing a pack holds a few objects in memory
	maxDeltaBytes       = 96 << 20  // 96 MiB: objects that indexing holds because more deltas build on them
	maxInflatedBytes    = 8 << 30   // 8 GiB: all objects of a pack, inflated and hashed one by one; about a minute
	maxChainBytes       = 256 << 20 // 256 MiB: deltas that build on each other, which go-git holds together to read the last
	maxPackObjects      = 1 << 20   // indexing a pack takes about 200 bytes of memory for each
	maxDeltaDepth       = 4095      // deltas that build on each other; git makes no more: https://git-scm.com/docs/git-pack-objects, --depth
	maxHeaderBytes      = 64 << 10  // 64 KiB of HTTP header
	maxTreeBytes        = 8 << 20   // 8 MiB: some 200,000 entries in one folder
	maxCommitBytes      = 1 << 20   // 1 MiB of message and signatures
	maxKeptBytes        = 16 << 20  // 16 MiB per mirror: contents of profile files, kept from one snapshot to the next
	objectCacheBytes    = 32 << 20  // 32 MiB per mirror: delta bases and trees that neighbouring commits share
)

// What an artifact of Flux may cost us. Flux's own limit for what it unpacks is 100 MiB
// (DefaultMaxUntarSize of github.com/fluxcd/pkg/tar v1.2.0).
const (
	maxArtifactBytes    = 128 << 20 // 128 MiB, on disk
	maxArtifactInflated = 512 << 20 // 512 MiB, read twice and never held
)

// How a mirror is kept.
const (
	// defaultTimeout bounds each phase of a fetch: dial, TLS, refs, pack.
	defaultTimeout = 60 * time.Second
	// maxTurns is how many mirrors are written and read at a time, and how many artifacts:
	// the first fetch of a long history takes some 300 MiB of memory.
	maxTurns = 4
	// maxPacks is when a mirror is fetched again, as one pack: every push leaves one, and
	// each costs a lookup per object and a file descriptor.
	maxPacks = 48
	// maxCrowdedPacks is when it is although the disk seems to have no room for it.
	maxCrowdedPacks = 4 * maxPacks
	// maxTips is how many heads a mirror remembers, to tell the server what it has.
	maxTips = 32
	// maxHaves is how many commits we tell the server. Git sends 256 in its first round.
	maxHaves = 256
	// maxWants bounds a fetch of all branches, where a server gives out commits by branch only.
	maxWants = 5000
	// maxKeptRefs is how many references an answer may have that is kept for other
	// sources, each about 150 bytes in memory.
	maxKeptRefs = 20_000
	// maxKeptChanges is how many changes of files a mirror keeps in memory, each about
	// 150 bytes, over all histories (a path on a branch) that are read from it. One that
	// was forgotten costs its whole walk again, at every look.
	maxKeptChanges = 1_000_000
	// maxNamedBranches is how many branches an error about a missing one still lists.
	maxNamedBranches = 8
)
