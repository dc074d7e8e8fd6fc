package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Contains tells whether a commit is Head or in its history, be it by a merge. A commit
// that the repository does not have any more is not. What was followed is another
// question: see Continues.
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

// Continues tells whether a commit is Head or on its first-parent line, so that whoever
// followed that commit follows Head without going back. A merge that has the commit as
// another than the first parent does not continue it.
func (s *Snapshot) Continues(ctx context.Context, c Commit) (bool, error) {
	if c == s.Head {
		return true, nil
	}
	if s.objects == nil || !isObjectID(string(c)) {
		return false, nil
	}
	o, old := s.objects.reader(), plumbing.NewHash(string(c))
	if !o.has(old) {
		return false, nil
	}
	_, found, err := o.firstParents(ctx, plumbing.NewHash(string(s.Head)), func(id plumbing.Hash) bool { return id == old })
	if err != nil {
		return false, fmt.Errorf("looking for %s on the line of %s of %s: %w", c, s.Revision, s.Repository, s.objects.explain(err))
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
// on that is not in the history of another. That one has to be there. It continues that
// one if it is on the line itself.
func (o *objects) since(ctx context.Context, head, old plumbing.Hash) (line []plumbing.Hash, continues bool, err error) {
	line, continues, err = o.firstParents(ctx, head, func(id plumbing.Hash) bool { return id == old })
	if err != nil || continues {
		return line, continues, err
	}
	known := map[plumbing.Hash]bool{}
	err = o.walk(ctx, old, func(id plumbing.Hash) bool {
		known[id] = true
		return true
	})
	if err != nil {
		return nil, false, err
	}
	line, _, err = o.firstParents(ctx, head, func(id plumbing.Hash) bool { return known[id] })
	return line, false, err
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
		return nil, false, fault.New(fault.ErrInvalid, "the history of %s has more than %d commits", head, maxLineCommits)
	}
	slices.Reverse(line)
	return line, met, nil
}

// pathChange is a path at which two trees differ. Was and is are zero where there is
// nothing, or a folder.
type pathChange struct {
	path    string
	was, is entry
}

// comparison finds every path, not of profiles alone, at which two trees differ in
// content, kind or mode. A folder that came or went is told by what is in it.
type comparison struct {
	objects *objects
	tops    []string // where to look; "" is everywhere, and none is in another
	entries int      // looked at since it was made
	room    int      // the most of them
	found   []pathChange
}

// trees compares two trees, and returns what differs in the order of paths.
func (c *comparison) trees(ctx context.Context, from, to plumbing.Hash) ([]pathChange, error) {
	c.found = nil
	for _, top := range c.tops {
		if top == "" {
			if err := c.folders(ctx, from, to, "", 0); err != nil {
				return nil, err
			}
			continue
		}
		was, err := c.objects.find(ctx, from, strings.Split(top, "/"))
		if err != nil {
			return nil, err
		}
		is, err := c.objects.find(ctx, to, strings.Split(top, "/"))
		if err != nil {
			return nil, err
		}
		if err := c.entry(ctx, was, is, top, 0); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.found, func(a, b pathChange) int { return strings.Compare(a.path, b.path) })
	return c.found, nil
}

func (c *comparison) folders(ctx context.Context, from, to plumbing.Hash, prefix string, depth int) error {
	if from == to {
		return nil
	}
	if depth > maxComparedDepth {
		return fault.New(fault.ErrInvalid, "a commit changes folders more than %d deep", maxComparedDepth)
	}
	left := map[string]entry{}
	for _, id := range []plumbing.Hash{from, to} {
		entries, err := c.objects.tree(ctx, id)
		if err != nil {
			return err
		}
		if c.entries += len(entries); c.entries > c.room {
			return fault.New(fault.ErrInvalid, "comparing what commits change looks at more than %d entries", c.room)
		}
		for _, e := range entries {
			if id == from {
				left[e.name] = e
				continue
			}
			was := left[e.name]
			delete(left, e.name)
			if err := c.entry(ctx, was, e, filter.JoinPath(prefix, e.name), depth); err != nil {
				return err
			}
		}
	}
	for name, e := range left {
		if err := c.entry(ctx, e, entry{}, filter.JoinPath(prefix, name), depth); err != nil {
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
	was, fromFolder := splitEntry(from)
	is, toFolder := splitEntry(to)
	if was != is {
		c.found = append(c.found, pathChange{path, was, is})
	}
	return c.folders(ctx, fromFolder, toFolder, path, depth+1)
}

// splitEntry tells a folder, by its tree, from anything else.
func splitEntry(e entry) (file entry, folder plumbing.Hash) {
	if e.mode&filter.ModeKind == filter.ModeFolder {
		return entry{}, e.id
	}
	return entry{mode: e.mode, id: e.id}, plumbing.ZeroHash
}

// newestBefore returns, of the commits before one on its first-parent line, that which
// says that it is the latest; zero where there is none before. What is found is
// remembered, so that asking about all commits of a line costs one walk.
func (o *objects) newestBefore(ctx context.Context, id plumbing.Hash) (plumbing.Hash, error) {
	o.timing.Lock()
	defer o.timing.Unlock()
	if o.newest == nil || len(o.newest) > maxCommits {
		o.newest = map[plumbing.Hash]plumbing.Hash{}
	}
	line, _, err := o.firstParents(ctx, id, func(at plumbing.Hash) bool {
		_, known := o.newest[at]
		return known
	})
	if err != nil {
		return plumbing.ZeroHash, err
	}
	for _, at := range line {
		c, err := o.commit(ctx, at)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if len(c.parents) == 0 {
			o.newest[at] = plumbing.ZeroHash
			continue
		}
		if o.newest[at], err = o.later(ctx, o.newest[c.parents[0]], c.parents[0]); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return o.newest[id], nil
}

// later returns which of two commits says that it is the later one. The first may be zero.
func (o *objects) later(ctx context.Context, a, b plumbing.Hash) (plumbing.Hash, error) {
	if a.IsZero() {
		return b, nil
	}
	first, err := o.commit(ctx, a)
	if err != nil {
		return a, err
	}
	second, err := o.commit(ctx, b)
	if err != nil || !second.committedAt.After(first.committedAt) {
		return a, err
	}
	return b, nil
}
