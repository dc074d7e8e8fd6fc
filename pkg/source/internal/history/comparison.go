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

// PathChange is a path at which two trees differ. Was and is are zero if no file exists,
// or a folder.
type PathChange struct {
	Path    string
	was, Is objectstore.Entry
}

// Comparison finds every path, not only of profiles, at which two trees differ in
// content, kind or mode. An added or removed folder is reported by its files.
type Comparison struct {
	Objects    *objectstore.Objects
	Tops       []string // folders to compare, none inside another; "" for all
	Entries    int      // compared so far
	MaxEntries int      // maximum of Entries
}

// CompareTrees compares two trees, and returns the differences ordered by path.
func (c *Comparison) CompareTrees(ctx context.Context, from, to plumbing.Hash) ([]PathChange, error) {
	var found []PathChange
	t := treeComparison{objects: c.Objects, entries: c.Entries, maxEntries: c.MaxEntries}
	t.full = fault.New(fault.ErrInvalid, "comparing the changes of commits exceeds %d entries", c.MaxEntries)
	t.differ = func(path string, from, to objectstore.Entry) error {
		was, _ := SplitEntry(from)
		is, _ := SplitEntry(to)
		if was != is {
			found = append(found, PathChange{path, was, is})
		}
		return nil
	}
	t.enter = func(e objectstore.Entry, _ int) plumbing.Hash {
		_, folder := SplitEntry(e)
		return folder
	}
	defer func() { c.Entries = t.entries }()
	for _, top := range c.Tops {
		if top == "" {
			if err := t.compareFolders(ctx, from, to, "", 0); err != nil {
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
		if err := t.compareEntries(ctx, was, is, top, 0); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b PathChange) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// treeComparison compares two trees by name. Equal trees are never opened.
type treeComparison struct {
	objects    *objectstore.Objects
	entries    int   // compared so far
	maxEntries int   // maximum of entries
	full       error // returned if there are more
	// differ is called for each path at which entries differ; a missing entry is zero.
	differ func(path string, from, to objectstore.Entry) error
	// enter returns the folder to compare for an entry, zero if it is not a folder.
	enter func(e objectstore.Entry, depth int) plumbing.Hash
}

func (c *treeComparison) compareFolders(ctx context.Context, from, to plumbing.Hash, prefix string, depth int) error {
	if from == to {
		return nil
	}
	if depth > maxComparedDepth {
		return fault.New(fault.ErrInvalid, "a commit changes folders more than %d deep", maxComparedDepth)
	}
	left := map[string]objectstore.Entry{}
	for _, id := range []plumbing.Hash{from, to} {
		entries, err := c.objects.Tree(ctx, id)
		if err != nil {
			return err
		}
		if c.entries += len(entries); c.entries > c.maxEntries {
			return c.full
		}
		for _, e := range entries {
			if id == from {
				left[e.Name] = e
				continue
			}
			was := left[e.Name]
			delete(left, e.Name)
			if err := c.compareEntries(ctx, was, e, filter.JoinPath(prefix, e.Name), depth); err != nil {
				return err
			}
		}
	}
	for name, e := range left {
		if err := c.compareEntries(ctx, e, objectstore.Entry{}, filter.JoinPath(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// compareEntries compares the entries at one path.
func (c *treeComparison) compareEntries(ctx context.Context, from, to objectstore.Entry, path string, depth int) error {
	if from.ID == to.ID && from.Mode == to.Mode {
		return nil
	}
	if err := c.differ(path, from, to); err != nil {
		return err
	}
	return c.compareFolders(ctx, c.enter(from, depth), c.enter(to, depth), path, depth+1)
}

// SplitEntry separates a folder, returned as its tree, from all other entries.
func SplitEntry(e objectstore.Entry) (file objectstore.Entry, folder plumbing.Hash) {
	if e.Mode&filter.ModeKind == filter.ModeFolder {
		return objectstore.Entry{}, e.ID
	}
	return objectstore.Entry{Mode: e.Mode, ID: e.ID}, plumbing.ZeroHash
}
