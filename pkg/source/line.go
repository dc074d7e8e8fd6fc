package source

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Lines keeps histories in memory, so that a new head costs its own steps and not
// the whole walk. What it returns is the same with and without it. The zero value
// is ready, and safe for concurrent use.
type Lines struct {
	mu   sync.Mutex
	kept recent[line]

	filter  sync.Mutex // held while histories are filtered
	visible recent[*visible]
}

// weigh is what a history takes, in changes; the least is that of its names.
func weigh(steps []Step) int {
	n := 10
	for i := range steps {
		n += 1 + len(steps[i].Changes)
	}
	return n
}

// line is the history of a path up to a head.
type line struct {
	head  plumbing.Hash
	steps []Step // oldest first
}

// of returns the line of a head without what is ignored, continuing the one kept
// under a name.
func (l *Lines) of(ctx context.Context, o *objects, name string, head plumbing.Hash, in filter.Scope) ([]Step, error) {
	key := name + "\x00" + in.Path()
	raw, err := l.raw(ctx, o, key, head, in.Parts)
	if err != nil {
		return nil, err
	}
	l.filter.Lock()
	defer l.filter.Unlock()
	key += "\x00" + in.Ignore
	v := l.visible.get(key)
	if v == nil {
		v = &visible{}
	}
	if v.of(raw) {
		return v.steps, nil
	}
	l.visible.drop(key) // if it fails it is somewhere on the way
	if err := v.follow(ctx, in, o.content, raw); err != nil {
		return nil, err
	}
	l.visible.room = maxKeptChanges
	l.visible.put(key, v, v.weight())
	return v.steps, nil
}

// raw returns the line of a head with the changes of every profile file and of every
// IgnoreFile.
func (l *Lines) raw(ctx context.Context, o *objects, key string, head plumbing.Hash, parts []string) ([]Step, error) {
	l.mu.Lock()
	old := l.kept.get(key)
	l.mu.Unlock()
	if old.head == head {
		return old.steps, nil
	}
	steps, err := walkLine(ctx, o, head, parts, old)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.room = maxKeptChanges
	l.kept.put(key, line{head: head, steps: steps}, weigh(steps))
	return steps, nil
}

// forget drops all histories.
func (l *Lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = recent[line]{}
	l.filter.Lock()
	defer l.filter.Unlock()
	l.visible = recent[*visible]{}
}

// walkLine walks the first parents of head back to its root, or to the head of an old
// line that it descends from, and returns the steps that change a profile file
// below a path. No blob is read.
func walkLine(ctx context.Context, o *objects, head plumbing.Hash, parts []string, old line) ([]Step, error) {
	w := lineWalk{objects: o, parts: parts}
	at, c, top, err := w.enter(ctx, head)
	if err != nil {
		return nil, err
	}
	for range maxLineCommits {
		if at == old.head {
			return w.after(old.steps), nil
		}
		if len(c.parents) == 0 {
			err := w.compare(ctx, at, c, plumbing.ZeroHash, top)
			return w.after(nil), err
		}
		parent, parentCommit, parentTop, err := w.enter(ctx, c.parents[0])
		if err != nil {
			return nil, err
		}
		if err := w.compare(ctx, at, c, parentTop, top); err != nil {
			return nil, err
		}
		at, c, top = parent, parentCommit, parentTop
	}
	return nil, fault.New(fault.ErrInvalid, "the history of %s has more than %d commits", head, maxLineCommits)
}

// lineWalk collects steps, newest first.
type lineWalk struct {
	objects *objects
	parts   []string
	steps   []Step
	entries int
	changes int
}

// enter returns a commit and the id of the folder at the path there, zero if there is none.
func (w *lineWalk) enter(ctx context.Context, id plumbing.Hash) (plumbing.Hash, commit, plumbing.Hash, error) {
	c, err := w.objects.commit(ctx, id)
	if err != nil {
		return id, commit{}, plumbing.ZeroHash, err
	}
	e, err := w.objects.find(ctx, c.tree, w.parts)
	if err != nil || e.mode&filter.ModeKind != filter.ModeFolder {
		return id, c, plumbing.ZeroHash, err
	}
	return id, c, e.id, nil
}

// compare adds the step from one folder to another, if any.
func (w *lineWalk) compare(ctx context.Context, id plumbing.Hash, c commit, from, to plumbing.Hash) error {
	if from == to {
		return nil
	}
	d := diff{objects: w.objects}
	if err := d.folders(ctx, from, to, strings.Join(w.parts, "/"), 0); err != nil {
		return err
	}
	if w.entries += d.entries; w.entries > maxLineEntries {
		return fault.New(fault.ErrInvalid, "comparing the history looks at more than %d entries; point the path at the folder of the profiles", maxLineEntries)
	}
	if w.changes += len(d.changes); w.changes > maxChanges {
		return fault.New(fault.ErrInvalid, "the history has more than %d changes of profile files; point the path at the folder of the profiles", maxChanges)
	}
	if len(d.changes) == 0 {
		return nil
	}
	slices.SortFunc(d.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	w.steps = append(w.steps, Step{Commit: Commit(id.String()), CommittedAt: c.committedAt, Changes: d.changes})
	return nil
}

// after returns a new list: the old steps, then those of this walk.
func (w *lineWalk) after(old []Step) []Step {
	slices.Reverse(w.steps)
	return slices.Concat(old, w.steps)
}

// diff collects what differs between two folders.
type diff struct {
	objects *objects
	entries int
	changes []Change
}

// folders compares two trees by name; equal subtrees are never opened. A zero id is an empty folder.
func (d *diff) folders(ctx context.Context, from, to plumbing.Hash, prefix string, depth int) error {
	before, err := d.objects.tree(ctx, from)
	if err != nil {
		return err
	}
	after, err := d.objects.tree(ctx, to)
	if err != nil {
		return err
	}
	if d.entries += len(before) + len(after); d.entries > filter.MaxEntries {
		return fault.New(fault.ErrInvalid, "a commit changes folders of more than %d entries; point the path at the folder of the profiles", filter.MaxEntries)
	}
	left := make(map[string]entry, len(before))
	for _, e := range before {
		left[e.name] = e
	}
	for _, e := range after {
		if err := d.entry(ctx, left[e.name], e, prefix, depth); err != nil {
			return err
		}
		delete(left, e.name)
	}
	for _, e := range before {
		if _, gone := left[e.name]; !gone {
			continue
		}
		if err := d.entry(ctx, e, entry{name: e.name}, prefix, depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares what stands under one name. What we would not read counts as not there.
func (d *diff) entry(ctx context.Context, from, to entry, prefix string, depth int) error {
	if from.id == to.id && from.mode&filter.ModeKind == to.mode&filter.ModeKind {
		return nil
	}
	path := filter.JoinPath(prefix, to.name)
	fromFile, toFile := profileBlob(from), profileBlob(to)
	if fromFile != toFile {
		change := Change{Path: path}
		if !toFile.IsZero() {
			change.Blob = toFile.String()
			if !d.objects.has(toFile) {
				return missing(toFile)
			}
		}
		d.changes = append(d.changes, change)
	}
	fromFolder, toFolder := subfolder(from), subfolder(to)
	if fromFolder == toFolder || depth == filter.MaxDepth {
		return nil
	}
	return d.folders(ctx, fromFolder, toFolder, path, depth+1)
}

func profileBlob(e entry) plumbing.Hash {
	if class, _ := filter.Classify(e.name, e.mode); class == filter.ClassFile {
		return e.id
	}
	return plumbing.ZeroHash
}

func subfolder(e entry) plumbing.Hash {
	if class, _ := filter.Classify(e.name, e.mode); class == filter.ClassFolder {
		return e.id
	}
	return plumbing.ZeroHash
}
