package filter

// What the files of one snapshot may cost. Profiles are a few kilobytes each and there
// are dozens of them; each limit leaves a factor of a hundred and is still small beside
// the memory of a controller.
const (
	MaxFileBytes  = 1 << 20  // 1 MiB: an object of the API server cannot be larger than 1.5 MiB
	MaxFiles      = 2000     // files per snapshot, each of which may become an object
	maxTotalBytes = 64 << 20 // 64 MiB: all files of a snapshot, which are held in memory together
	MaxRefusals   = 1000     // a list that a person still reads; more are counted in its last entry
	MaxDepth      = 32       // folders below the source's path
	maxPathBytes  = 1024     // of the source's path, as the CRD says

	// MaxEntries is the number of tree entries one walk looks at. Ten trees that
	// name each other ten times are a handful of objects and ten billion paths.
	MaxEntries = 100_000

	// MaxIgnoreBytes bounds one file of ignore rules, as the CRD does those of a source.
	MaxIgnoreBytes = 16 << 10 // 16 KiB
	// MaxIgnoreFiles is the number of such files in a tree.
	MaxIgnoreFiles = 128
	// MaxIgnoreCost is the number of times a name is compared with an ignore pattern,
	// for one tree and for a whole history; each takes some 30 ns.
	MaxIgnoreCost = 50_000_000
)
