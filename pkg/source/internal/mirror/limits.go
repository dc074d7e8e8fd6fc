package mirror

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
