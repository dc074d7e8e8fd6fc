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

// files reads the profile files of a tree that are in a scope: regular blobs with the
// right name, straight from the object database.
func (o *objects) files(ctx context.Context, tree plumbing.Hash, in filter.Scope) ([]filter.File, []filter.Refusal, error) {
	top, err := o.folder(ctx, tree, in.Parts)
	if err != nil {
		return nil, nil, err
	}
	l := listing{objects: o}
	if err := l.walk(ctx, top.id, in.Path(), 0); err != nil {
		return nil, nil, err
	}
	if l.found, err = in.Keep(ctx, o.content, l.found, &l.refused); err != nil {
		return nil, nil, err
	}
	return l.read(ctx)
}

// folder returns the entry at a path, which must be a folder on the way and at its end.
func (o *objects) folder(ctx context.Context, tree plumbing.Hash, parts []string) (entry, error) {
	for i := range parts {
		path := strings.Join(parts[:i+1], "/")
		e, err := o.find(ctx, tree, parts[:i+1])
		if err != nil {
			return entry{}, err
		}
		switch e.mode & filter.ModeKind {
		case 0:
			return entry{}, fault.New(fault.ErrNotFound, "path %q does not exist there", path)
		case filter.ModeSymlink:
			return entry{}, fault.New(fault.ErrInvalid, "path %q is a symlink, and links are not followed", path)
		case filter.ModeGitlink:
			return entry{}, fault.New(fault.ErrInvalid, "path %q is a submodule, and submodules are not fetched", path)
		case filter.ModeFolder:
		default:
			return entry{}, fault.New(fault.ErrInvalid, "path %q is a file where a folder belongs", path)
		}
	}
	return o.find(ctx, tree, parts)
}

// listing collects what lies below a folder.
type listing struct {
	objects *objects
	entries int // seen so far
	found   []filter.File
	refused filter.Refusals
}

func (l *listing) walk(ctx context.Context, tree plumbing.Hash, prefix string, depth int) error {
	entries, err := l.objects.tree(ctx, tree)
	if err != nil {
		return err
	}
	if l.entries += len(entries); l.entries > filter.MaxEntries {
		return fault.New(fault.ErrInvalid, "there are more than %d entries below the path; point it at the folder of the profiles", filter.MaxEntries)
	}
	for _, e := range entries {
		path := filter.JoinPath(prefix, e.name)
		switch class, reason := filter.Classify(e.name, e.mode); {
		case class == filter.ClassRefused:
			l.refused.Add(path, reason)
		case class == filter.ClassFile:
			l.found = append(l.found, filter.File{Path: path, Blob: e.id.String()})
		case class == filter.ClassFolder && depth == filter.MaxDepth:
			l.refused.Add(path, filter.TooDeep)
		case class == filter.ClassFolder:
			if err := l.walk(ctx, e.id, path, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// read loads what was found, in the order of the paths, so that a limit always
// hits the same files.
func (l *listing) read(ctx context.Context) ([]filter.File, []filter.Refusal, error) {
	slices.SortFunc(l.found, func(a, b filter.File) int { return strings.Compare(a.Path, b.Path) })
	var q filter.Quota
	var files []filter.File
	for _, f := range l.found {
		id := plumbing.NewHash(f.Blob)
		data, known := l.objects.recall(id)
		size := int64(len(data))
		var err error
		if !known {
			if size, err = l.objects.blobSize(id); err != nil {
				return nil, nil, fmt.Errorf("reading %q: %w", f.Path, err)
			}
		}
		if reason := q.Admit(size); reason != "" {
			l.refused.Add(f.Path, reason)
			continue
		}
		if !known {
			if data, err = l.objects.blob(ctx, id); err != nil {
				return nil, nil, fmt.Errorf("reading %q: %w", f.Path, err)
			}
			l.objects.keep(id, data)
		}
		f.Data = data
		files = append(files, f)
	}
	return files, l.refused.Sorted(), nil
}

// content reads a file from an object database.
func (o *objects) content(ctx context.Context, f filter.File) ([]byte, error) {
	return o.blob(ctx, plumbing.NewHash(f.Blob))
}
