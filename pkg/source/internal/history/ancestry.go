package history

import (
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Descends tells whether a commit is another or in its history.
func Descends(ctx context.Context, o *objectstore.Objects, id, from plumbing.Hash) (bool, error) {
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

// walk visits a commit and its history, each commit once, first parents first,
// until told to stop.
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
		if err := objectstore.CheckCommits(seen); err != nil {
			return err
		}
		if !visit(id) {
			return nil
		}
		c, err := o.Commit(ctx, id)
		if err != nil {
			return err
		}
		for _, parent := range slices.Backward(c.Parents) {
			todo = append(todo, parent)
		}
	}
	return nil
}

// Since lists the first-parent line of a head, oldest first, from the first commit
// on that is not in the history of another. That one has to be there. It continues that
// one if it is on the line itself.
func Since(ctx context.Context, o *objectstore.Objects, head, old plumbing.Hash) (line []plumbing.Hash, continues bool, err error) {
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

// FirstParents lists a line, oldest first, up to a commit at which it ends.
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

// PathChange is a path at which two trees differ. Was and is are zero where there is
// nothing, or a folder.
type PathChange struct {
	Path    string
	was, Is objectstore.Entry
}

// Comparison finds every path, not of profiles alone, at which two trees differ in
// content, kind or mode. A folder that came or went is told by what is in it.
type Comparison struct {
	Objects *objectstore.Objects
	Tops    []string // where to look; "" is everywhere, and none is in another
	Entries int      // looked at since it was made
	Room    int      // the most of them
	found   []PathChange
}

// Trees compares two trees, and returns what differs in the order of paths.
func (c *Comparison) Trees(ctx context.Context, from, to plumbing.Hash) ([]PathChange, error) {
	c.found = nil
	for _, top := range c.Tops {
		if top == "" {
			if err := c.folders(ctx, from, to, "", 0); err != nil {
				return nil, err
			}
			continue
		}
		was, err := c.Objects.Find(ctx, from, strings.Split(top, "/"))
		if err != nil {
			return nil, err
		}
		is, err := c.Objects.Find(ctx, to, strings.Split(top, "/"))
		if err != nil {
			return nil, err
		}
		if err := c.entry(ctx, was, is, top, 0); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.found, func(a, b PathChange) int { return strings.Compare(a.Path, b.Path) })
	return c.found, nil
}

func (c *Comparison) folders(ctx context.Context, from, to plumbing.Hash, prefix string, depth int) error {
	if from == to {
		return nil
	}
	if depth > maxComparedDepth {
		return fault.New(fault.ErrInvalid, "a commit changes folders more than %d deep", maxComparedDepth)
	}
	left := map[string]objectstore.Entry{}
	for _, id := range []plumbing.Hash{from, to} {
		entries, err := c.Objects.Tree(ctx, id)
		if err != nil {
			return err
		}
		if c.Entries += len(entries); c.Entries > c.Room {
			return fault.New(fault.ErrInvalid, "comparing what commits change looks at more than %d entries", c.Room)
		}
		for _, e := range entries {
			if id == from {
				left[e.Name] = e
				continue
			}
			was := left[e.Name]
			delete(left, e.Name)
			if err := c.entry(ctx, was, e, filter.JoinPath(prefix, e.Name), depth); err != nil {
				return err
			}
		}
	}
	for name, e := range left {
		if err := c.entry(ctx, e, objectstore.Entry{}, filter.JoinPath(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares what stands at one path.
func (c *Comparison) entry(ctx context.Context, from, to objectstore.Entry, path string, depth int) error {
	if from.ID == to.ID && from.Mode == to.Mode {
		return nil
	}
	was, fromFolder := SplitEntry(from)
	is, toFolder := SplitEntry(to)
	if was != is {
		c.found = append(c.found, PathChange{path, was, is})
	}
	return c.folders(ctx, fromFolder, toFolder, path, depth+1)
}

// SplitEntry tells a folder, by its tree, from anything else.
func SplitEntry(e objectstore.Entry) (file objectstore.Entry, folder plumbing.Hash) {
	if e.Mode&filter.ModeKind == filter.ModeFolder {
		return objectstore.Entry{}, e.ID
	}
	return objectstore.Entry{Mode: e.Mode, ID: e.ID}, plumbing.ZeroHash
}
