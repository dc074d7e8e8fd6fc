package objectstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Files reads the profile files of a tree within a scope: regular blobs with a matching
// name, directly from the object database.
func (o *Objects) Files(ctx context.Context, tree plumbing.Hash, in filter.Scope) ([]filter.File, []filter.RejectedEntry, error) {
	top, err := o.folder(ctx, tree, in.Parts)
	if err != nil {
		return nil, nil, err
	}
	l := Listing{Objects: o}
	if err := l.Walk(ctx, top.ID, in.Path(), 0); err != nil {
		return nil, nil, err
	}
	if l.Found, err = in.Select(ctx, o.Content, l.Found, &l.Rejected); err != nil {
		return nil, nil, err
	}
	return l.read(ctx)
}

// folder returns the entry at a path, all of whose parts must be folders.
func (o *Objects) folder(ctx context.Context, tree plumbing.Hash, parts []string) (Entry, error) {
	for i := range parts {
		path := strings.Join(parts[:i+1], "/")
		e, err := o.Find(ctx, tree, parts[:i+1])
		if err != nil {
			return Entry{}, err
		}
		switch e.Mode & filter.ModeKind {
		case 0:
			return Entry{}, fault.New(fault.ErrNotFound, "path %q does not exist there", path)
		case filter.ModeSymlink:
			return Entry{}, fault.New(fault.ErrInvalid, "path %q is a symlink, and links are not followed", path)
		case filter.ModeGitlink:
			return Entry{}, fault.New(fault.ErrInvalid, "path %q is a submodule, and submodules are not fetched", path)
		case filter.ModeFolder:
		default:
			return Entry{}, fault.New(fault.ErrInvalid, "path %q is a file, but must be a folder", path)
		}
	}
	return o.Find(ctx, tree, parts)
}

// Listing collects the files below a folder.
type Listing struct {
	Objects  *Objects
	Entries  int // seen so far
	Found    []filter.File
	Rejected filter.RejectedEntries
}

func (l *Listing) Walk(ctx context.Context, tree plumbing.Hash, prefix string, depth int) error {
	entries, err := l.Objects.Tree(ctx, tree)
	if err != nil {
		return err
	}
	if l.Entries += len(entries); l.Entries > filter.MaxEntries {
		return fault.New(fault.ErrInvalid, "there are more than %d entries below the path; point it at the folder of the profiles", filter.MaxEntries)
	}
	for _, e := range entries {
		path := filter.JoinPath(prefix, e.Name)
		switch class, reason := filter.Classify(e.Name, e.Mode); {
		case class == filter.ClassRejected:
			l.Rejected.Add(path, reason)
		case class == filter.ClassFile:
			l.Found = append(l.Found, filter.File{Path: path, Blob: e.ID.String()})
		case class == filter.ClassFolder && depth == filter.MaxDepth:
			l.Rejected.Add(path, filter.TooDeep)
		case class == filter.ClassFolder:
			if err := l.Walk(ctx, e.ID, path, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// read loads the files in the order of their paths, so that a limit always affects the
// same files.
func (l *Listing) read(ctx context.Context) ([]filter.File, []filter.RejectedEntry, error) {
	slices.SortFunc(l.Found, func(a, b filter.File) int { return strings.Compare(a.Path, b.Path) })
	var q filter.Quota
	var files []filter.File
	for _, f := range l.Found {
		id := plumbing.NewHash(f.Blob)
		data, known := l.Objects.cachedBlob(id)
		size := int64(len(data))
		var err error
		// The size is in the object's header, so a large file is rejected without being read.
		if !known {
			if size, err = l.Objects.blobSize(id); err != nil {
				return nil, nil, fmt.Errorf("reading %q: %w", f.Path, err)
			}
		}
		if reason := q.Admit(size); reason != "" {
			l.Rejected.Add(f.Path, reason)
			continue
		}
		if !known {
			if data, err = l.Objects.Blob(ctx, id); err != nil {
				return nil, nil, fmt.Errorf("reading %q: %w", f.Path, err)
			}
			l.Objects.cacheBlob(id, data)
		}
		f.Data = data
		files = append(files, f)
	}
	return files, l.Rejected.Sorted(), nil
}

// Content reads a file from an object database.
func (o *Objects) Content(ctx context.Context, f filter.File) ([]byte, error) {
	return o.Blob(ctx, plumbing.NewHash(f.Blob))
}
