package source

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// changeOf finds the commit that made a path what it is at a commit, the way Git
// simplifies history: side branches that left the path alone are not entered, and
// of a merge that took one side whole only that side is.
func changeOf(ctx context.Context, o *objects, id plumbing.Hash, parts []string) (Author, error) {
	c, err := o.commit(ctx, id)
	if fault.IsMissing(err) {
		return Author{}, fault.New(fault.ErrNotFound, "there is no such commit")
	}
	if err != nil {
		return Author{}, err
	}
	here, err := o.find(ctx, c.tree, parts)
	if err != nil {
		return Author{}, err
	}
	for range maxCommits {
		same, err := sameParent(ctx, o, c, here, parts)
		if err != nil {
			return Author{}, err
		}
		if !same.IsZero() {
			id = same
			if c, err = o.commit(ctx, id); err != nil {
				return Author{}, err
			}
			continue
		}
		if len(c.parents) == 0 && here.mode == 0 {
			return Author{}, fault.New(fault.ErrNotFound, "no commit in its history has this path")
		}
		return authorOf(ctx, o, id)
	}
	return Author{}, fault.New(fault.ErrInvalid, "the history has more than %d commits", maxCommits)
}

// sameParent returns the first parent that has the same at the path, or zero.
func sameParent(ctx context.Context, o *objects, c commit, here entry, parts []string) (plumbing.Hash, error) {
	for i, parent := range c.parents {
		if slices.Contains(c.parents[:i], parent) {
			continue
		}
		p, err := o.commit(ctx, parent)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		there, err := o.find(ctx, p.tree, parts)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if there.same(here) {
			return parent, nil
		}
	}
	return plumbing.ZeroHash, nil
}

// authorOf returns who wrote a commit.
func authorOf(ctx context.Context, o *objects, id plumbing.Hash) (Author, error) {
	data, err := o.read(ctx, plumbing.CommitObject, id, maxCommitBytes)
	if err != nil {
		return Author{}, err
	}
	header, err := parseCommit(id, data)
	if err != nil {
		return Author{}, err
	}
	name, email, at := parseIdentity(header.author)
	return Author{Commit: Commit(id.String()), Name: name, Email: email, At: at}, nil
}
