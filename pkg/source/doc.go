// Package source reads profile files out of Git repositories, directories and the
// program itself, and returns them as a Snapshot: the files at one revision, and
// the first-parent history of those files.
//
// It creates no work tree, runs no git binary, fetches no submodule, follows no symlink of a
// repository and decodes no profile. A remote is stored as a bare mirror on disk and fetched
// incrementally. All of it can be fetched again, so a damaged mirror is deleted and fetched
// from the start.
//
// Snapshot.Verify checks the signatures that a VerificationPolicy requires, and
// Snapshot.FirstParentsContain reports whether a snapshot only adds commits to an earlier one.
//
// Start reading at Snapshot, then Mirrors.Fetch, which follows a remote,
// Directory.Read, Repository.Read for any revision of a local one, and
// Embedded.Read. The packages below internal do the work:
//
//	transport     connects to servers
//	objectstore   reads packs and objects, and stores mirrors
//	history       walks commits
//	verification  checks signatures of commits and who may change what
//	revision      finds the commit of a name or a range of tags
//	worktree      reads and watches folders and repositories on this machine
//	artifact      downloads and reads archives of Flux
//	filter        decides which files are read, with ignore rules
//	fault         has the classes of errors
package source
