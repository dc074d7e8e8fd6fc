package history

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// IsSameOrDescendant reports whether a commit is another one or in its history.
func IsSameOrDescendant(ctx context.Context, o *objectstore.Objects, id, from plumbing.Hash) (bool, error) {
	if !o.Has(from) {
		return false, nil
	}
	found := false
	err := walk(ctx, o, id, func(at plumbing.Hash) bool {
		found = found || at == from
		return !found
	})
	return found, err
}

// walk visits a commit and its history, each commit once, first parents first, until
// visit returns false.
func walk(ctx context.Context, o *objectstore.Objects, from plumbing.Hash, visit func(plumbing.Hash) bool) error {
	seen := map[plumbing.Hash]bool{}
	todo := []plumbing.Hash{from}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		if err := objectstore.CheckCommitCount(seen); err != nil {
			return err
		}
		if !visit(id) {
			return nil
		}
		c, err := o.Commit(ctx, id)
		if err != nil {
			return err
		}
		// The stack returns the first parent first.
		for _, parent := range slices.Backward(c.Parents) {
			todo = append(todo, parent)
		}
	}
	return nil
}

// FirstParentsSince lists the first-parent history of a head, oldest first, from the first commit
// that is not in the history of old, which must exist. continues reports whether old is
// itself in the first-parent history.
func FirstParentsSince(ctx context.Context, o *objectstore.Objects, head, old plumbing.Hash) (line []plumbing.Hash, continues bool, err error) {
	// This is the usual case, and needs no second walk.
	line, continues, err = FirstParents(ctx, o, head, func(id plumbing.Hash) bool { return id == old })
	if err != nil || continues {
		return line, continues, err
	}
	known := map[plumbing.Hash]bool{}
	err = walk(ctx, o, old, func(id plumbing.Hash) bool {
		known[id] = true
		return true
	})
	if err != nil {
		return nil, false, err
	}
	line, _, err = FirstParents(ctx, o, head, func(id plumbing.Hash) bool { return known[id] })
	return line, false, err
}

// FirstParents lists a first-parent history, oldest first, until end returns true.
func FirstParents(ctx context.Context, o *objectstore.Objects, head plumbing.Hash, end func(plumbing.Hash) bool) (line []plumbing.Hash, met bool, err error) {
	for id := head; len(line) <= MaxLineCommits; {
		if end(id) {
			met = true
			break
		}
		line = append(line, id)
		c, err := o.Commit(ctx, id)
		if err != nil {
			return nil, false, err
		}
		if len(c.Parents) == 0 {
			break
		}
		id = c.Parents[0]
	}
	if len(line) > MaxLineCommits {
		return nil, false, fault.New(fault.ErrInvalid, "the history of %s has more than %d commits", head, MaxLineCommits)
	}
	slices.Reverse(line)
	return line, met, nil
}
