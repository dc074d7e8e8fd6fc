package source

import (
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// descends tells whether a commit is another or in its history.
func descends(ctx context.Context, o *objects, id, from plumbing.Hash) (bool, error) {
	if !o.has(from) {
		return false, nil
	}
	found := false
	err := walk(ctx, o, id, func(at plumbing.Hash) bool {
		found = found || at == from
		return !found
	})
	return found, err
}

// walk visits a commit and its history, each commit once, first parents first,
// until told to stop.
func walk(ctx context.Context, o *objects, from plumbing.Hash, visit func(plumbing.Hash) bool) error {
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
func since(ctx context.Context, o *objects, head, old plumbing.Hash) (line []plumbing.Hash, continues bool, err error) {
	line, continues, err = firstParents(ctx, o, head, func(id plumbing.Hash) bool { return id == old })
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
	line, _, err = firstParents(ctx, o, head, func(id plumbing.Hash) bool { return known[id] })
	return line, false, err
}

// firstParents lists a line, oldest first, up to a commit at which it ends.
func firstParents(ctx context.Context, o *objects, head plumbing.Hash, end func(plumbing.Hash) bool) (line []plumbing.Hash, met bool, err error) {
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
