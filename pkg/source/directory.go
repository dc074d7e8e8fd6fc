package source

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/worktree"
)

// Directory is a folder on this machine: a Git work tree, whose .git is only read,
// or a plain folder.
type Directory struct {
	// Root is what nothing may lead out of: no "..", no symlink.
	Root string
	// Path is the folder, absolute or relative to Root. The work tree may begin above
	// it, but not above Root.
	Path string
	// Sub is the folder of the profiles in it; "" is the folder itself.
	Sub string
	// Ignore holds patterns in gitignore's syntax, relative to Sub, which come after
	// those of every IgnoreFile.
	Ignore string
	// Lines keeps the history between reads; nil walks it each time.
	Lines *Lines
}

// Read reads the snapshot of the folder as it is now. In a work tree each file is
// compared with the commit at HEAD byte by byte: where Git converts line ends or
// filters, a file counts as dirty. Errors are of the kinds ErrNotFound and
// ErrInvalid; any other is the context's, or this machine's disk.
func (d Directory) Read(ctx context.Context) (*Snapshot, error) {
	lines := d.Lines
	if lines == nil {
		lines = new(Lines)
	}
	state, err := d.local().Read(ctx, lines)
	if err != nil {
		return nil, err
	}
	snapshot := snapshotOf(state)
	snapshot.Repository = d.local().Name()
	if state.Dirty {
		snapshot.Revision = digest(state.Files)
	} else {
		snapshot.Revision = revision.Format(state.Branch, plumbing.NewHash(string(state.Head)))
	}
	return snapshot, nil
}

// ReadFiles reads the profile files of the folder as they are now and no history,
// so that it opens no object of a repository. Paths are relative to the folder, or to
// Sub in it. Errors are those of Read.
func (d Directory) ReadFiles(ctx context.Context) ([]File, []Refusal, error) {
	return d.local().ReadFiles(ctx)
}

// Watch tells of changes of a directory until it is closed.
type Watch = worktree.Watch

// Watch begins to watch a directory: the folder of the profiles and all below it, the
// links on the way there, and which commit is checked out. It calls changed within a
// second of a change, from one goroutine, with a context that ends with Close. What
// changes after Watch has returned is told. Where the kernel refuses to watch, and
// where the folders are too many, changed is called every ten seconds instead.
func (d Directory) Watch(changed func(context.Context)) *Watch { return d.local().Watch(changed) }

// TopOf returns the top of the work tree that a folder is in, "" where it is in none.
// The folder is absolute.
func TopOf(dir string) string { return worktree.TopOf(dir) }

func (d Directory) local() worktree.Directory {
	return worktree.Directory{Root: d.Root, Path: d.Path, Sub: d.Sub, Ignore: d.Ignore}
}

// snapshotOf is what a folder or a repository on this machine has.
func snapshotOf(state worktree.State) *Snapshot {
	s := &Snapshot{Head: state.Head, Files: state.Files, Refused: state.Refused, Line: state.Line}
	if state.Repository != nil {
		s.objects, s.verified = state.Repository, new(verification.Cache)
	}
	return s
}
