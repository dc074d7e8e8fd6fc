package filter

// Limits on the files of one snapshot. Profiles are dozens of files of a few kilobytes
// each; each limit allows a hundred times as much and is still small compared to the
// memory of a controller.
const (
	MaxFileBytes  = 1 << 20  // 1 MiB: an object of the API server cannot be larger than 1.5 MiB
	MaxFiles      = 2000     // files per snapshot; each can become an object
	maxTotalBytes = 64 << 20 // 64 MiB: all files of a snapshot, which are held in memory together
	MaxRefusals   = 1000     // a list that users can still read; the last entry counts the rest
	MaxDepth      = 32       // folders below the source's path
	maxPathBytes  = 1024     // of the source's path, as the CRD says

	// MaxEntries is the number of tree entries in one walk. Ten trees that contain each
	// other ten times need only a few objects and result in ten billion paths.
	MaxEntries = 100_000

	// MaxIgnoreBytes limits the size of an ignore file; the CRD has the same limit for
	// the patterns of a source.
	MaxIgnoreBytes = 16 << 10 // 16 KiB
	// MaxIgnoreFiles is the number of ignore files in a tree.
	MaxIgnoreFiles = 128
	// MaxIgnoreCost is the number of comparisons of a name with an ignore pattern, for
	// one tree and for a whole history; each takes about 30 ns.
	MaxIgnoreCost = 50_000_000
)
