// Package source reads profile files out of Git repositories, directories and the
// program itself, and hands them on as a Snapshot: the files at one revision, and
// the first-parent history of those files.
//
// It never checks anything out, runs no git binary, fetches no submodule, follows
// no symlink of a repository and decodes no profile. A remote is kept as a bare
// mirror on disk that is fetched incrementally; what is in it can always be had
// again, so a damaged mirror is thrown away and fetched anew.
//
// Snapshot.Verify holds a snapshot against the signatures that are demanded of it,
// and Snapshot.Contains tells whether it continues another.
//
// Start reading at Snapshot, then Mirrors.Fetch, which follows a remote,
// Directory.Read, Repository.Read for any revision of a local one, and
// Embedded.Read. What a stranger's server may do to us is bounded in the limits.go of the packages below internal.
//
// Git's formats are read and written by go-git. What is ours beside it, because it does
// not do what is needed:
//   - The order in which the deltas of a pack are resolved: see packEntries.indexPack.
//   - Ignore rules: see internal/filter.
//   - Caches that are bounded by bytes or changes: k8s.io/utils/lru counts entries.
//   - Connections: see internal/transport.
package source
