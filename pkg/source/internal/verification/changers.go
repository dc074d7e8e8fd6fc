package verification

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// changedPaths lists the paths that differ between two trees, and the files that an IgnoreFile
// hides in only one of them. Folders without relevant paths are not entered.
func (v *verification) changedPaths(ctx context.Context, from, to plumbing.Hash) ([]string, error) {
	found, err := v.compareRelevantPaths(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return v.addVisibilityChanges(ctx, found, from, to)
}

// addVisibilityChanges returns the paths of the changes found between two trees, and the files that a
// changed IgnoreFile hides or shows.
func (v *verification) addVisibilityChanges(ctx context.Context, found []history.PathChange, from, to plumbing.Hash) ([]string, error) {
	paths := make([]string, len(found))
	rules := false
	for i, c := range found {
		paths[i] = c.Path
		rules = rules || v.isRelevantIgnoreFile(c.Path)
	}
	if !rules {
		return paths, nil
	}
	moved, err := v.pathsWithChangedVisibility(ctx, from, to)
	return append(paths, moved...), err
}

// compareRelevantPaths returns the differences between two trees at relevant paths.
func (v *verification) compareRelevantPaths(ctx context.Context, from, to plumbing.Hash) ([]history.PathChange, error) {
	c := history.Comparison{Objects: v.Objects, Tops: v.protectedAndScopeFolders(), Entries: v.spent, MaxEntries: history.MaxLineEntries}
	found, err := c.CompareTrees(ctx, from, to)
	v.spent = c.Entries
	return found, err
}

// protectedAndScopeFolders returns the folders with relevant paths: those that a glob can match, and those
// of the profiles, for their ignore files.
func (v *verification) protectedAndScopeFolders() []string {
	if v.matters != nil {
		return v.matters
	}
	all := []string{v.Scope.Path()}
	for _, p := range v.Paths {
		base, _ := doublestar.SplitPattern(p.Glob)
		if base == "." {
			base = ""
		}
		all = append(all, base)
	}
	slices.Sort(all)
	for _, top := range all { // each comes after its parents
		if !slices.ContainsFunc(v.matters, func(above string) bool { return above == "" || top == above || strings.HasPrefix(top, above+"/") }) {
			v.matters = append(v.matters, top)
		}
	}
	return v.matters
}

// isRelevantIgnoreFile reports whether a path is an IgnoreFile that counts.
func (v *verification) isRelevantIgnoreFile(path string) bool {
	top := v.Scope.Path()
	return filter.IsIgnoreFile(path) && (top == "" || strings.HasPrefix(path, top+"/"))
}

// pathsWithChangedVisibility lists the profile files that are read in only one of two trees.
func (v *verification) pathsWithChangedVisibility(ctx context.Context, from, to plumbing.Hash) ([]string, error) {
	before, err := v.visibleFiles(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := v.visibleFiles(ctx, to)
	if err != nil {
		return nil, err
	}
	for path := range after {
		if before[path] {
			delete(before, path)
		} else {
			before[path] = true
		}
	}
	return slices.Sorted(maps.Keys(before)), nil
}

// visibleFiles lists the profile files that are read in a tree.
func (v *verification) visibleFiles(ctx context.Context, tree plumbing.Hash) (map[string]bool, error) {
	out := map[string]bool{}
	in := v.Scope
	top, err := v.Objects.Find(ctx, tree, in.Parts)
	if err != nil || top.Mode&filter.ModeKind != filter.ModeFolder || top.ID.IsZero() {
		return out, err
	}
	l := objectstore.Listing{Objects: v.Objects}
	if err := l.Walk(ctx, top.ID, in.Path(), 0); err != nil {
		return nil, err
	}
	if v.spent += l.Entries; v.spent > history.MaxLineEntries {
		return nil, fault.New(fault.ErrInvalid, "evaluating %s exceeds %d entries", filter.IgnoreFile, history.MaxLineEntries)
	}
	selected, err := in.Select(ctx, v.Objects.Content, l.Found, &l.Rejected)
	for _, f := range selected {
		out[f.Path] = true
	}
	return out, err
}

// isProtected reports whether a path is guarded by a demand.
func (v *verification) isProtected(path string) bool {
	return slices.ContainsFunc(v.Paths, func(p PathPolicy) bool { return p.Matches(path) })
}

// checkLastChanges checks who last changed each path, for a snapshot without an earlier accepted
// one.
func (v *verification) checkLastChanges(ctx context.Context) error {
	if len(v.Paths) == 0 {
		return nil
	}
	all, err := v.findChangers(ctx)
	if err != nil {
		return err
	}
	// These commits can be old: keys that have expired since are valid.
	v.old = true
	for _, c := range all {
		if err := v.checkAllowedPaths(ctx, c.commit, c.paths, claim{"was the last to change %q", presentRemedy}); err != nil {
			return err
		}
		for _, path := range sorted(c.asides) {
			merge, err := v.findMergeLosingAllowedChange(ctx, path, c.asides[path])
			if err != nil {
				return err
			}
			if merge.IsZero() {
				continue
			}
			if err := v.checkAllowedPaths(ctx, merge, []string{path}, claim{"does not contain the last change of %q", presentRemedy}); err != nil {
				return err
			}
		}
	}
	return nil
}

// changer is a commit that was the last to change some paths.
type changer struct {
	commit plumbing.Hash
	paths  []string // sorted
	// asides are set in the changer without commit, by path, in the order of the history.
	asides map[string][]mergedChange
}

func sorted(m map[string][]mergedChange) []string { return slices.Sorted(maps.Keys(m)) }

// findChangers walks the first-parent history once and finds the commits that last changed
// each guarded path, in the order of the history. The result is cached because it is
// needed in every reconciliation of a head that remains rejected.
func (v *verification) findChangers(ctx context.Context) ([]changer, error) {
	name := fmt.Sprintf("%s %q %q", v.Subject.Head, v.Scope.Path(), v.Scope.Ignore)
	for _, p := range v.Paths {
		name += fmt.Sprintf(" %q", p.Glob)
	}
	// The walk is long, and several sources can request the same one.
	v.Cache.walking.Lock()
	defer v.Cache.walking.Unlock()
	if known := v.Cache.changers.Get(name); known != nil {
		return known, nil
	}
	last, asides, line, err := v.lastChanges(ctx)
	if err != nil {
		return nil, err
	}
	paths := map[plumbing.Hash][]string{}
	for _, path := range slices.Sorted(maps.Keys(last)) {
		paths[last[path]] = append(paths[last[path]], path)
	}
	out := []changer{}
	for _, id := range line {
		if len(paths[id]) > 0 {
			out = append(out, changer{commit: id, paths: paths[id]})
		}
	}
	weight := 1 + len(last)
	for _, list := range asides {
		weight += len(list)
	}
	out = append(out, changer{asides: asides})
	v.Cache.changers.MaxWeight = history.MaxCachedChanges
	v.Cache.changers.Put(name, out, weight)
	return out, nil
}

// lastChanges finds the last commit of each path that is guarded and ever existed, and
// the changes outside the first-parent history since then.
func (v *verification) lastChanges(ctx context.Context) (last map[string]plumbing.Hash, asides map[string][]mergedChange, line []plumbing.Hash, err error) {
	line, _, err = history.FirstParents(ctx, v.Objects, v.Subject.Head, func(plumbing.Hash) bool { return false })
	if err != nil {
		return nil, nil, nil, err
	}
	w := walkedHistory{verification: v, commits: line, index: make(map[plumbing.Hash]int, len(line)), forks: map[plumbing.Hash]int{}, states: map[string][]state{}, visited: map[plumbing.Hash]bool{}, asides: map[string][]mergedChange{}}
	for i, id := range line {
		w.index[id] = i
	}
	last = map[string]plumbing.Hash{}
	for i, id := range line {
		changed, err := w.recordAndListChangesAt(ctx, i)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, path := range changed {
			if v.isProtected(path) {
				last[path] = id
				// A change in the first-parent history decides, whatever merges brought before.
				delete(w.asides, path)
			}
		}
		if err := w.recordSideBranchChanges(ctx, i, changed); err != nil {
			return nil, nil, nil, err
		}
		if w.changes > history.MaxChanges {
			return nil, nil, nil, fault.New(fault.ErrInvalid, "the history has more than %d changes of the paths that spec.git.verify.paths names", history.MaxChanges)
		}
	}
	return last, w.asides, line, nil
}

// walkedHistory is the part of a history that was walked.
type walkedHistory struct {
	*verification
	commits []plumbing.Hash // oldest first
	index   map[plumbing.Hash]int
	forks   map[plumbing.Hash]int     // for commits outside the history: the place at which they left it, -1 for none
	states  map[string][]state        // of relevant paths, in the order of the history
	visited map[plumbing.Hash]bool    // the history so far
	asides  map[string][]mergedChange // since a path was last changed in the first-parent history
	changes int
}

// state is the content of a path from a place in the history on.
type state struct {
	from int
	is   objectstore.Entry
}

// recordAndListChangesAt records the states of the paths that the commit at a place in the history
// changes, and lists its changes, with those that a merge dropped.
func (w *walkedHistory) recordAndListChangesAt(ctx context.Context, i int) ([]string, error) {
	c, err := w.Objects.Commit(ctx, w.commits[i])
	if err != nil {
		return nil, err
	}
	var before plumbing.Hash
	if i > 0 {
		parent, err := w.Objects.Commit(ctx, w.commits[i-1])
		if err != nil {
			return nil, err
		}
		before = parent.Tree
	}
	var dropped []string
	for _, other := range c.Parents[min(1, len(c.Parents)):] {
		more, err := w.droppedChanges(ctx, i, c.Tree, other)
		if err != nil {
			return nil, err
		}
		dropped = append(dropped, more...)
	}
	found, err := w.compareRelevantPaths(ctx, before, c.Tree)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if w.isProtected(p.Path) || w.isRelevantIgnoreFile(p.Path) {
			w.states[p.Path] = append(w.states[p.Path], state{i, p.Is})
			w.changes++
		}
	}
	changed, err := w.addVisibilityChanges(ctx, found, before, c.Tree)
	return append(changed, dropped...), err
}

// droppedChanges lists the changes of another parent of a merge, since it left the first-parent
// history, that the merge does not have. It is unknown which of the two was followed
// before: a user who merges main into an old branch, and takes nothing from main, reverts
// main.
//
// Content that the first-parent history has had since then came from there to the other
// parent, and is old.
func (w *walkedHistory) droppedChanges(ctx context.Context, i int, tree, other plumbing.Hash) ([]string, error) {
	fork, err := w.forkPoint(ctx, other)
	if err != nil {
		return nil, err
	}
	var before plumbing.Hash
	if fork >= 0 {
		c, err := w.Objects.Commit(ctx, w.commits[fork])
		if err != nil {
			return nil, err
		}
		before = c.Tree
	}
	side, err := w.Objects.Commit(ctx, other)
	if err != nil {
		return nil, err
	}
	found, err := w.compareRelevantPaths(ctx, before, side.Tree)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range found {
		rules := w.isRelevantIgnoreFile(p.Path)
		if !rules && !w.isProtected(p.Path) || w.hadContentBetween(p, fork, i) {
			continue
		}
		here, err := w.Objects.Find(ctx, tree, strings.Split(p.Path, "/"))
		if err != nil {
			return nil, err
		}
		if is, _ := history.SplitEntry(here); is == p.Is {
			continue
		}
		out = append(out, p.Path)
		if rules {
			moved, err := w.pathsWithChangedVisibility(ctx, side.Tree, tree)
			if err != nil {
				return nil, err
			}
			out = append(out, moved...)
		}
	}
	return out, nil
}

// hadContentBetween reports whether a path had the content of a side branch in the first-parent
// history, between the place at which the branch left it and the merge.
func (w *walkedHistory) hadContentBetween(p history.PathChange, fork, merge int) bool {
	return slices.ContainsFunc(w.states[p.Path], func(s state) bool { return fork < s.from && s.from < merge && s.is == p.Is })
}

// forkPoint returns the place at which the first parents of a commit leave the first-parent
// history.
func (w *walkedHistory) forkPoint(ctx context.Context, id plumbing.Hash) (int, error) {
	var side []plumbing.Hash
	at := -1
	for {
		place, on := w.index[id]
		if !on {
			place, on = w.forks[id]
		}
		if on {
			at = place
			break
		}
		side = append(side, id)
		c, err := w.Objects.Commit(ctx, id)
		if err != nil {
			return at, err
		}
		if len(c.Parents) == 0 {
			break
		}
		id = c.Parents[0]
	}
	// All of them leave it at the same place, so each is walked only once.
	for _, id := range side {
		w.forks[id] = at
	}
	if len(w.forks) > objectstore.MaxCommits {
		return at, fault.New(fault.ErrInvalid, "the history has more than %d commits", objectstore.MaxCommits)
	}
	return at, nil
}
