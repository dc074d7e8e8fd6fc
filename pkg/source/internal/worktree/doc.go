// Package worktree reads profile files from this machine: from plain folders, from the work
// trees of Git repositories, and from repositories at a revision. It also watches folders for
// changes. It never writes to a repository.
//
// It follows no symlink out of the root of a directory. Start reading at Directory.Read, Open
// and Directory.Watch.
package worktree
