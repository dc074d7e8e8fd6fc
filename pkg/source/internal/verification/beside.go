package verification

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// mergedChange is a change of a path by a commit that a merge brought.
type mergedChange struct {
	merge, commit plumbing.Hash
	// lost reports that neither the merge nor the first-parent history before it has the
	// change.
	lost bool
}

// recordSideBranchChanges records changes of guarded paths by the commits that a merge brought, if the
// merge itself has these paths unchanged from its first parent. It does not check whether one
// commit reverts another: that depends on who did it.
func (w *walkedHistory) recordSideBranchChanges(ctx context.Context, i int, changed []string) error {
	w.visited[w.commits[i]] = true
	merge, err := w.Objects.Commit(ctx, w.commits[i])
	if err != nil || len(merge.Parents) < 2 {
		return err
	}
	brought, err := w.mergedCommits(ctx, merge.Parents[1:])
	if err != nil {
		return err
	}
	for _, id := range brought {
		c, err := w.Objects.Commit(ctx, id)
		if err != nil {
			return err
		}
		var before plumbing.Hash
		if len(c.Parents) > 0 {
			parent, err := w.Objects.Commit(ctx, c.Parents[0])
			if err != nil {
				return err
			}
			before = parent.Tree
		}
		found, err := w.compareRelevantPaths(ctx, before, c.Tree)
		if err != nil {
			return err
		}
		paths, err := w.addVisibilityChanges(ctx, found, before, c.Tree)
		if err != nil {
			return err
		}
		var moved []string // files hidden in only one of the two trees
		if len(paths) > len(found) {
			if moved, err = w.pathsWithChangedVisibility(ctx, c.Tree, merge.Tree); err != nil {
				return err
			}
		}
		for at, path := range paths {
			if !w.isProtected(path) || slices.Contains(changed, path) {
				continue
			}
			lost := slices.Contains(moved, path)
			if at < len(found) {
				if lost, err = w.isChangeLost(ctx, i, merge.Tree, id, found[at]); err != nil {
					return err
				}
			}
			w.asides[path] = append(w.asides[path], mergedChange{w.commits[i], id, lost})
			w.changes++
		}
	}
	return nil
}

// isChangeLost reports whether a merge lacks the change of a path by a commit outside the
// first-parent history.
func (w *walkedHistory) isChangeLost(ctx context.Context, i int, tree, id plumbing.Hash, p history.PathChange) (bool, error) {
	here, err := w.Objects.Find(ctx, tree, strings.Split(p.Path, "/"))
	if err != nil {
		return false, err
	}
	if is, _ := history.SplitEntry(here); is == p.Is {
		return false, nil
	}
	fork, err := w.forkPoint(ctx, id)
	return err == nil && !w.hadContentBetween(p, fork, i), err
}

// mergedCommits lists the commits in the history of a merge's other parents that are not in the
// first-parent history before it, parents before children.
func (w *walkedHistory) mergedCommits(ctx context.Context, from []plumbing.Hash) ([]plumbing.Hash, error) {
	type visit struct {
		id      plumbing.Hash
		parents []plumbing.Hash // still to visit
	}
	var open []visit
	var out []plumbing.Hash
	enter := func(id plumbing.Hash) error {
		if w.visited[id] {
			return nil
		}
		w.visited[id] = true
		c, err := w.Objects.Commit(ctx, id)
		open = append(open, visit{id, c.Parents})
		return errors.Join(err, objectstore.CheckCommitCount(w.visited))
	}
	for _, id := range from {
		if err := enter(id); err != nil {
			return nil, err
		}
		for len(open) > 0 {
			top := &open[len(open)-1]
			if len(top.parents) == 0 {
				out = append(out, top.id)
				open = open[:len(open)-1]
				continue
			}
			next := top.parents[0]
			top.parents = top.parents[1:]
			if err := enter(next); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// findMergeLosingAllowedChange returns the merge that lost a change of a path which was signed by an allowed
// signer, and which no allowed signer has changed since; zero if there is none.
func (v *verification) findMergeLosingAllowedChange(ctx context.Context, path string, asides []mergedChange) (plumbing.Hash, error) {
	var later []plumbing.Hash // changes by allowed signers
	for _, a := range slices.Backward(asides) {
		may, err := v.canSignerChange(ctx, a.commit, path)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		// The change had no effect without an allowed signer, so a merge can lose it.
		if !may {
			continue
		}
		known := false
		for _, id := range slices.Backward(later) {
			if !a.lost || known {
				break
			}
			if v.ancestries++; v.ancestries > maxAncestries {
				return plumbing.ZeroHash, fault.New(fault.ErrInvalid, "comparing the changes that merges lost needs more than %d ancestry checks: let a principal commit %q again", maxAncestries, shortenText(path))
			}
			if known, err = history.IsSameOrDescendant(ctx, v.Objects, id, a.commit); err != nil {
				return plumbing.ZeroHash, err
			}
		}
		if a.lost && !known {
			return a.merge, nil
		}
		later = append(later, a.commit)
	}
	return plumbing.ZeroHash, nil
}

// canSignerChange reports whether a commit is signed by a signer who can change a path.
func (v *verification) canSignerChange(ctx context.Context, id plumbing.Hash, path string) (bool, error) {
	good, _, err := v.verifyCommit(ctx, id)
	if _, ok := errors.AsType[*signature.Error](err); ok {
		return false, nil
	}
	return err == nil && !slices.ContainsFunc(v.Paths, func(p PathPolicy) bool { return p.Matches(path) && !good.IsMadeByAny(p.Principals) }), err
}
