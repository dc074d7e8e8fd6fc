package source

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// Contains tells whether a commit is Head or in its history. A commit that the
// repository does not have any more is not.
func (s *Snapshot) Contains(ctx context.Context, c Commit) (bool, error) {
	if c == s.Head {
		return true, nil
	}
	if s.objects == nil || !isObjectID(string(c)) {
		return false, nil
	}
	found, err := s.objects.reader().descends(ctx, plumbing.NewHash(string(s.Head)), plumbing.NewHash(string(c)))
	if err != nil {
		return false, fmt.Errorf("looking for %s in the history of %s of %s: %w", c, s.Revision, s.Repository, s.objects.explain(err))
	}
	return found, nil
}

// descends tells whether a commit is another or in its history.
func (o *objects) descends(ctx context.Context, id, from plumbing.Hash) (bool, error) {
	if !o.has(from) {
		return false, nil
	}
	found := false
	err := o.walk(ctx, id, func(at plumbing.Hash) bool {
		found = found || at == from
		return !found
	})
	return found, err
}

// walk visits a commit and its history, each commit once, first parents first,
// until told to stop.
func (o *objects) walk(ctx context.Context, from plumbing.Hash, visit func(plumbing.Hash) bool) error {
	seen := map[plumbing.Hash]bool{}
	todo := []plumbing.Hash{from}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		if err := checkCommits(seen); err != nil {
			return err
		}
		if !visit(id) {
			return nil
		}
		c, err := o.commit(ctx, id)
		if err != nil {
			return err
		}
		for _, parent := range slices.Backward(c.parents) {
			todo = append(todo, parent)
		}
	}
	return nil
}

// since lists the first-parent line of a head, oldest first, from the first commit
// on that is not in the history of another. That one has to be there.
func (o *objects) since(ctx context.Context, head, old plumbing.Hash) ([]plumbing.Hash, error) {
	line, met, err := o.firstParents(ctx, head, func(id plumbing.Hash) bool { return id == old })
	if err != nil || met {
		return line, err
	}
	known := map[plumbing.Hash]bool{}
	err = o.walk(ctx, old, func(id plumbing.Hash) bool {
		known[id] = true
		return true
	})
	if err != nil {
		return nil, err
	}
	line, _, err = o.firstParents(ctx, head, func(id plumbing.Hash) bool { return known[id] })
	return line, err
}

// firstParents lists a line, oldest first, up to a commit at which it ends.
func (o *objects) firstParents(ctx context.Context, head plumbing.Hash, end func(plumbing.Hash) bool) (line []plumbing.Hash, met bool, err error) {
	for id := head; len(line) <= maxLineCommits; {
		if end(id) {
			met = true
			break
		}
		line = append(line, id)
		c, err := o.commit(ctx, id)
		if err != nil {
			return nil, false, err
		}
		if len(c.parents) == 0 {
			break
		}
		id = c.parents[0]
	}
	if len(line) > maxLineCommits {
		return nil, false, fail(ErrInvalid, "the history of %s has more than %d commits", head, maxLineCommits)
	}
	slices.Reverse(line)
	return line, met, nil
}

// changedPaths lists every path, not of profiles alone, at which two trees differ in
// content, kind or mode, sorted. A folder that came or went is listed by what is in it.
func (o *objects) changedPaths(ctx context.Context, from, to plumbing.Hash) ([]string, error) {
	c := comparison{objects: o}
	err := c.folders(ctx, from, to, "", 0)
	slices.Sort(c.paths)
	return slices.Compact(c.paths), err
}

type comparison struct {
	objects *objects
	entries int
	paths   []string
}

func (c *comparison) folders(ctx context.Context, from, to plumbing.Hash, prefix string, depth int) error {
	if from == to {
		return nil
	}
	if depth > maxComparedDepth {
		return fail(ErrInvalid, "a commit changes folders more than %d deep", maxComparedDepth)
	}
	left := map[string]entry{}
	for _, id := range []plumbing.Hash{from, to} {
		entries, err := c.objects.tree(ctx, id)
		if err != nil {
			return err
		}
		if c.entries += len(entries); c.entries > maxComparedEntries {
			return fail(ErrInvalid, "a commit changes folders of more than %d entries", maxComparedEntries)
		}
		for _, e := range entries {
			if id == from {
				left[e.name] = e
				continue
			}
			was := left[e.name]
			delete(left, e.name)
			if err := c.entry(ctx, was, e, join(prefix, e.name), depth); err != nil {
				return err
			}
		}
	}
	for name, e := range left {
		if err := c.entry(ctx, e, entry{}, join(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares what stands at one path.
func (c *comparison) entry(ctx context.Context, from, to entry, path string, depth int) error {
	if from.id == to.id && from.mode == to.mode {
		return nil
	}
	folderOf := func(e entry) plumbing.Hash {
		if e.mode&modeKind == modeFolder {
			return e.id
		}
		return plumbing.ZeroHash
	}
	fromFolder, toFolder := folderOf(from), folderOf(to)
	if from.id != fromFolder || to.id != toFolder { // one of them is no folder and not nothing
		c.paths = append(c.paths, path)
	}
	return c.folders(ctx, fromFolder, toFolder, path, depth+1)
}
