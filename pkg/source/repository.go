package source

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/worktree"
)

// Repository is a Git repository on this machine, bare or with a work tree, that is read at a
// revision. The files in its work tree are not read.
type Repository struct {
	// Dir is the repository, its work tree, or a folder in the work tree.
	Dir string
	// Revision is a branch, a tag, a commit or a revision like HEAD~1; "" is HEAD.
	Revision string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore has patterns in gitignore syntax, relative to Path. They apply after those of
	// every IgnoreFile.
	Ignore string
}

// Read returns the snapshot at the revision. Its Repository is the URL of the remote origin
// if Mirrors could fetch that URL, so that it equals the Repository of the same commit
// fetched by Mirrors. Errors are of the kinds ErrNotFound and ErrInvalid, or from the context
// or this machine's disk.
func (r Repository) Read(ctx context.Context) (*Snapshot, error) {
	snapshot, err := r.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s of repository %s: %w", fault.EscapeUnprintable(fault.Shorten(r.revision())), r.Dir, err)
	}
	return snapshot, nil
}

func (r Repository) revision() string {
	if r.Revision == "" {
		return "HEAD"
	}
	return r.Revision
}

func (r Repository) read(ctx context.Context) (*Snapshot, error) {
	parts, err := filter.SplitPath(r.Path)
	if err != nil {
		return nil, err
	}
	spec, err := revision.Parse(r.revision())
	if err != nil {
		return nil, err
	}
	repo, path, err := worktree.Open(r.Dir)
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	in := filter.Scope{Parts: parts, Ignore: r.Ignore}
	state, err := repo.Read(ctx, spec, in)
	if err != nil {
		return nil, err
	}
	snapshot := snapshotOf(state)
	snapshot.Revision = revision.Format("", plumbing.NewHash(string(state.Head)))
	snapshot.Repository = cmp.Or(repo.Origin(), path)
	snapshot.scope = in
	return snapshot, nil
}
