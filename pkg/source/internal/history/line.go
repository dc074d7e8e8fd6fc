package history

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Cache caches histories, so that a new head costs its own steps and not the whole walk.
// The result is the same without the cache. The zero value is ready, and safe for
// concurrent use.
type Cache struct {
	mu    sync.Mutex // held while a history is read, so that a waiting caller finds it cached
	cache Recent[*cachedLine]
}

// cachedLine is the history of a path up to a head.
type cachedLine struct {
	cachedWalk
	visible visibleHistory
}

// cacheWeight returns the size of a history, in changes; at least that of its names.
func cacheWeight(steps []Entry) int {
	n := 10
	for i := range steps {
		n += 1 + len(steps[i].Changes)
	}
	return n
}

// cachedWalk has the changes of every profile file and of every IgnoreFile up to a head.
type cachedWalk struct {
	Head  plumbing.Hash
	Steps []Entry // oldest first
}

// FirstParentHistory returns the first-parent history of a head without ignored files. It continues the
// history that is cached under a name.
func (l *Cache) FirstParentHistory(ctx context.Context, o *objectstore.Objects, name string, head plumbing.Hash, in filter.Scope) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := name + "\x00" + in.Path() + "\x00" + in.Ignore
	line := l.cache.Get(key)
	if line == nil {
		line = &cachedLine{}
	}
	if line.Head == head {
		return line.visible.steps, nil
	}
	steps, err := walkLine(ctx, o, head, in.Parts, line.cachedWalk)
	if err != nil {
		return nil, err
	}
	l.cache.drop(key) // if filtering fails, the state is incomplete
	line.cachedWalk = cachedWalk{Head: head, Steps: steps}
	if err := line.visible.update(ctx, in, o.Content, steps); err != nil {
		return nil, err
	}
	l.cache.MaxWeight = MaxCachedChanges
	l.cache.Put(key, line, cacheWeight(steps)+line.visible.extraCacheWeight())
	return line.visible.steps, nil
}

// Forget drops all histories.
func (l *Cache) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache = Recent[*cachedLine]{}
}

// walkLine walks the first parents of head to its root, or to the head of the old history
// that it descends from, and returns the steps that change a profile file below a path.
// It reads no blobs.
func walkLine(ctx context.Context, o *objectstore.Objects, head plumbing.Hash, parts []string, old cachedWalk) ([]Entry, error) {
	w := lineWalk{objects: o, parts: parts}
	at, c, top, err := w.readCommitAndFolder(ctx, head)
	if err != nil {
		return nil, err
	}
	for range MaxLineCommits {
		if at == old.Head {
			return w.appendTo(old.Steps), nil
		}
		if len(c.Parents) == 0 {
			err := w.addStep(ctx, at, c, plumbing.ZeroHash, top)
			return w.appendTo(nil), err
		}
		parent, parentCommit, parentTop, err := w.readCommitAndFolder(ctx, c.Parents[0])
		if err != nil {
			return nil, err
		}
		if err := w.addStep(ctx, at, c, parentTop, top); err != nil {
			return nil, err
		}
		at = parent
		c = parentCommit
		top = parentTop
	}
	return nil, fault.New(fault.ErrInvalid, "the history of %s has more than %d commits", head, MaxLineCommits)
}

// lineWalk collects steps, newest first.
type lineWalk struct {
	objects *objectstore.Objects
	parts   []string
	steps   []Entry
	entries int
	changes int
}

// readCommitAndFolder returns a commit and the id of the folder at the path, zero if there is none.
func (w *lineWalk) readCommitAndFolder(ctx context.Context, id plumbing.Hash) (plumbing.Hash, objectstore.CommitInfo, plumbing.Hash, error) {
	c, err := w.objects.Commit(ctx, id)
	if err != nil {
		return id, objectstore.CommitInfo{}, plumbing.ZeroHash, err
	}
	e, err := w.objects.Find(ctx, c.Tree, w.parts)
	if err != nil || e.Mode&filter.ModeKind != filter.ModeFolder {
		return id, c, plumbing.ZeroHash, err
	}
	return id, c, e.ID, nil
}

// addStep adds the entry of a commit with the differences between two folders, if there are any.
func (w *lineWalk) addStep(ctx context.Context, id plumbing.Hash, c objectstore.CommitInfo, from, to plumbing.Hash) error {
	if from == to {
		return nil
	}
	changes, err := w.changedFiles(ctx, from, to)
	if err != nil {
		return err
	}
	if w.changes += len(changes); w.changes > MaxChanges {
		return fault.New(fault.ErrInvalid, "the history has more than %d changes of profile files; point the path at the folder of the profiles", MaxChanges)
	}
	if len(changes) == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	w.steps = append(w.steps, Entry{Commit: Commit(id.String()), CommittedAt: c.CommittedAt, Changes: changes})
	return nil
}

// changedFiles lists the profile files that differ between two folders. A file that is never
// read counts as absent.
func (w *lineWalk) changedFiles(ctx context.Context, from, to plumbing.Hash) ([]Change, error) {
	var changes []Change
	c := treeComparison{objects: w.objects, maxEntries: filter.MaxEntries}
	c.full = fault.New(fault.ErrInvalid, "a commit changes folders of more than %d entries; point the path at the folder of the profiles", filter.MaxEntries)
	c.differ = func(path string, from, to objectstore.Entry) error {
		fromFile, toFile := profileBlob(from), profileBlob(to)
		if fromFile == toFile {
			return nil
		}
		change := Change{Path: path}
		if !toFile.IsZero() {
			change.Blob = toFile.String()
			// A missing blob has to be noticed now, while it can be fetched again.
			if !w.objects.Has(toFile) {
				return objectstore.MissingError(toFile)
			}
		}
		changes = append(changes, change)
		return nil
	}
	c.enter = func(e objectstore.Entry, depth int) plumbing.Hash {
		if class, _ := filter.Classify(e.Name, e.Mode); class != filter.ClassFolder || depth == filter.MaxDepth {
			return plumbing.ZeroHash
		}
		return e.ID
	}
	err := c.compareFolders(ctx, from, to, strings.Join(w.parts, "/"), 0)
	if w.entries += c.entries; err == nil && w.entries > MaxLineEntries {
		err = fault.New(fault.ErrInvalid, "comparing the history exceeds %d entries; point the path at the folder of the profiles", MaxLineEntries)
	}
	return changes, err
}

// appendTo returns a new list: the old steps, then those of this walk.
func (w *lineWalk) appendTo(old []Entry) []Entry {
	slices.Reverse(w.steps)
	return slices.Concat(old, w.steps)
}

func profileBlob(e objectstore.Entry) plumbing.Hash {
	if class, _ := filter.Classify(e.Name, e.Mode); class == filter.ClassFile {
		return e.ID
	}
	return plumbing.ZeroHash
}
