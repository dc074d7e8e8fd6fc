package artifact

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// readArchive reads the profile files of a compressed tar that are in a scope. It makes two
// passes, one for names and ignore rules, one for contents, so that the result does not
// depend on the order of entries. Entries are never unpacked to disk, so their names, modes
// and links have no effect.
func (l Limits) readArchive(ctx context.Context, from io.ReadSeeker, in filter.Scope) ([]filter.File, []filter.RejectedEntry, error) {
	a := archive{scope: in, found: map[string]int64{}, rules: map[string][]byte{}, twice: map[string]bool{}}
	if err := l.eachEntry(ctx, from, a.recordEntry); err != nil {
		return nil, nil, err
	}
	// An empty result would look like the removal of all profiles.
	if !a.entered && len(in.Parts) > 0 {
		return nil, nil, fault.New(fault.ErrNotFound, "path %q does not exist there", in.Path())
	}
	if err := a.selectFiles(ctx); err != nil {
		return nil, nil, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	if err := l.eachEntry(ctx, from, a.load); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(a.files, func(x, y filter.File) int { return strings.Compare(x.Path, y.Path) })
	return a.files, a.rejected.Sorted(), nil
}

// eachEntry calls a function for every entry, with the parts of its path.
func (l Limits) eachEntry(ctx context.Context, from io.Reader, do func(h *tar.Header, parts []string, r io.Reader) error) error {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return fault.New(fault.ErrInvalid, "it is not a gzip-compressed tar archive; for an OCIRepository, set spec.layerSelector.operation to extract")
	}
	// Bound the decompressed size: a small archive can inflate to any size.
	entries := tar.NewReader(http.MaxBytesReader(nil, unzipped, l.Inflated))
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return explainArchive(err)
		case n == l.Entries:
			return fault.New(fault.ErrInvalid, "it has more than %d entries: exclude files without profiles with spec.ignore of the Flux source", l.Entries)
		}
		parts, err := filter.SplitPath(h.Name)
		if err != nil {
			return fault.New(fault.ErrInvalid, "it is not trusted and was not read: entry %s: %v", fault.EscapeUnprintable(fault.Shorten(h.Name)), err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader || len(parts) == 0 { // the comment of git archive, or the root
			continue
		}
		if err := do(h, parts, entries); err != nil {
			return explainArchive(err)
		}
	}
}

// explainArchive turns an error of reading into one of kind ErrInvalid.
func explainArchive(err error) error {
	if errors.Is(err, fault.ErrInvalid) {
		return err
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.ErrInvalid, "it has more than %d bytes when decompressed", large.Limit)
	}
	return fault.New(fault.ErrInvalid, "it is a broken archive: %v", err)
}

// archive has the results of the passes over an archive.
type archive struct {
	scope    filter.Scope
	entered  bool             // the path of the scope exists
	found    map[string]int64 // sizes by path
	twice    map[string]bool
	rules    map[string][]byte
	rejected filter.RejectedEntries
	wanted   map[string]bool
	files    []filter.File
}

// recordEntry records an entry of the archive in the first pass.
func (a *archive) recordEntry(h *tar.Header, parts []string, r io.Reader) error {
	depth := len(a.scope.Parts)
	if len(parts) < depth || !slices.Equal(parts[:depth], a.scope.Parts) {
		return nil
	}
	if len(parts) == depth {
		if h.Typeflag != tar.TypeDir {
			return fault.New(fault.ErrInvalid, "path %q is not a folder", a.scope.Path())
		}
		a.entered = true
		return nil
	}
	a.entered = true
	path := strings.Join(parts, "/")
	class, reason := a.classifyEntry(parts[depth:], tarMode(h))
	if class == filter.ClassFile && h.Typeflag != tar.TypeReg {
		class = filter.ClassRejected
		reason = "it is not a regular file but a hard link, a device or similar: only regular files are read"
	}
	switch _, twice := a.found[path]; {
	case class == filter.ClassRejected:
		a.rejected.Add(path, reason)
	// Another reader of the archive could use the other entry.
	case class == filter.ClassFile && twice:
		a.twice[path] = true
	case class == filter.ClassFile:
		a.found[path] = h.Size
		if filter.IsIgnoreFile(path) && len(a.rules) < filter.MaxIgnoreFiles {
			// One byte more than allowed shows that the file is too large.
			data, err := io.ReadAll(io.LimitReader(r, filter.MaxIgnoreBytes+1))
			if err != nil {
				return err
			}
			a.rules[path] = data
		}
	}
	return nil
}

// classifyEntry applies the rules of Git trees to an entry and to the folders that contain it. It also
// returns why an entry is rejected.
func (a *archive) classifyEntry(pathParts []string, mode uint32) (filter.Class, string) {
	if len(pathParts) > filter.MaxDepth+1 {
		return filter.ClassRejected, filter.TooDeep
	}
	for _, name := range pathParts[:len(pathParts)-1] {
		if class, reason := filter.Classify(name, filter.ModeFolder); class != filter.ClassFolder {
			return class, reason
		}
	}
	return filter.Classify(pathParts[len(pathParts)-1], mode)
}

func tarMode(h *tar.Header) uint32 {
	switch h.Typeflag {
	case tar.TypeDir:
		return filter.ModeFolder
	case tar.TypeSymlink:
		return filter.ModeSymlink
	}
	return filter.ModeFile
}

// selectFiles selects the files to read, in the order of their paths, so that a limit always
// excludes the same files.
func (a *archive) selectFiles(ctx context.Context) error {
	var files []filter.File
	for path := range a.found {
		if a.twice[path] {
			a.rejected.Add(path, "the archive has two entries of this path")
			continue
		}
		files = append(files, filter.File{Path: path})
	}
	slices.SortFunc(files, func(x, y filter.File) int { return strings.Compare(x.Path, y.Path) })
	read := func(_ context.Context, f filter.File) ([]byte, error) { return a.rules[f.Path], nil }
	files, err := a.scope.Select(ctx, read, files, &a.rejected)
	if err != nil {
		return err
	}
	a.wanted = map[string]bool{}
	var q filter.Quota
	for _, f := range files {
		if reason := q.Admit(a.found[f.Path]); reason != "" {
			a.rejected.Add(f.Path, reason)
			continue
		}
		a.wanted[f.Path] = true
	}
	return nil
}

// load reads the content of a chosen entry in the second pass.
func (a *archive) load(_ *tar.Header, parts []string, r io.Reader) error {
	path := strings.Join(parts, "/")
	if !a.wanted[path] {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r, filter.MaxFileBytes+1))
	if err == nil && int64(len(data)) != a.found[path] {
		err = fmt.Errorf("the size of %s differs from its header", path)
	}
	if err != nil {
		return err
	}
	id, err := objectid.Sum(plumbing.BlobObject, data)
	if err != nil {
		return err
	}
	a.files = append(a.files, filter.File{Path: path, Blob: id.String(), Data: data})
	return nil
}
