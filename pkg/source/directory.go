package source

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/watch"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/worktree"
)

// Directory is a folder on this machine: a Git work tree, whose .git is never written to, or a
// plain folder.
type Directory struct {
	// Root is the folder that no path and no symlink may leave.
	Root string
	// Path is the folder, absolute or relative to Root. The top of its work tree can be
	// above it, but not above Root.
	Path string
	// Sub is the folder of the profiles, relative to Path; "" is Path itself.
	Sub string
	// Ignore has patterns in gitignore syntax, relative to Sub. They apply after those of
	// every IgnoreFile.
	Ignore string
	// Lines caches the history between reads; nil walks it each time.
	Lines *HistoryCache
}

// Read returns a snapshot of the current state of the folder. In a work tree each file is
// compared with the commit at HEAD byte by byte, so that a file whose line ends or content
// Git converts counts as dirty. Errors are of the kinds ErrNotFound and ErrInvalid, or from
// the context or this machine's disk.
func (d Directory) Read(ctx context.Context) (*Snapshot, error) {
	lines := d.Lines
	if lines == nil {
		lines = new(HistoryCache)
	}
	state, err := d.local().Read(ctx, lines)
	if err != nil {
		return nil, err
	}
	snapshot := snapshotOf(state)
	snapshot.Repository = d.local().Name()
	if state.Dirty {
		// No commit has these contents, so their digest is the revision.
		snapshot.Revision = digest(state.Files)
	} else {
		snapshot.Revision = revision.Format(state.Branch, plumbing.NewHash(string(state.Head)))
	}
	return snapshot, nil
}

// ReadFiles reads the current profile files of the folder without history, so that it opens
// no object of a repository. Paths are relative to the folder, or to Sub in it. Errors are
// those of Read.
func (d Directory) ReadFiles(ctx context.Context) ([]File, []RejectedEntry, error) {
	return d.local().ReadFiles(ctx)
}

// Watch reports changes of a directory until it is closed.
type Watch = watch.Watch

// Watch starts watching a directory: the folder of the profiles and all folders below it, the
// links in its path, and the commit that is checked out. It calls changed within a second of
// a change, from one goroutine, with a context that ends with Close. Every change after Watch
// has returned is reported. If the kernel refuses to watch or there are too many folders,
// changed is called every ten seconds instead.
func (d Directory) Watch(changed func(context.Context)) *Watch { return d.local().Watch(changed) }

// WatchFiles starts watching files, by their absolute paths, and the links in these. If folder is not
// empty, each profile file in it is watched, too. It calls changed as Directory.Watch does.
func WatchFiles(files []string, folder string, changed func(context.Context)) *Watch {
	return worktree.WatchFiles(files, folder, changed)
}

// FindWorktree returns the top of the work tree that contains a folder, "" if there is none. The
// path of the folder must be absolute.
func FindWorktree(dir string) string { return worktree.FindWorktree(dir) }

func (d Directory) local() worktree.Directory {
	return worktree.Directory{Root: d.Root, Path: d.Path, Sub: d.Sub, Ignore: d.Ignore}
}

// snapshotOf returns the snapshot of a folder or repository on this machine, without its
// revision.
func snapshotOf(state worktree.State) *Snapshot {
	s := &Snapshot{Head: state.Head, Files: state.Files, Rejected: state.Rejected, Line: state.Line}
	if state.Repository != nil {
		s.objects, s.verified = state.Repository, new(verification.Cache)
	}
	return s
}
