package filter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// A Reader returns the content of a file, which has a path or a blob or both.
type Reader func(ctx context.Context, f File) ([]byte, error)

// Select returns the files of a tree that are not ignored, and adds those that cannot
// be read to rejected. It reads the ignore files among the files, and does not return them.
func (s Scope) Select(ctx context.Context, read Reader, files []File, rejected *RejectedEntries) ([]File, error) {
	patterns := map[string][]Pattern{}
	selected := make([]File, 0, len(files))
	for _, f := range files {
		if !IsIgnoreFile(f.Path) {
			selected = append(selected, f)
			continue
		}
		if len(patterns) == MaxIgnoreFiles {
			rejected.Add(f.Path, fmt.Sprintf("too many files: the first %d of this name are read", MaxIgnoreFiles))
			continue
		}
		found, err := ReadPatterns(ctx, read, f)
		if errors.Is(err, fault.ErrInvalid) {
			rejected.Add(f.Path, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns[f.Path] = found
	}
	r := NewRules(s, patterns)
	selected = slices.DeleteFunc(selected, func(f File) bool { return r.Ignores(f.Path) })
	// A rejected file that is ignored is not a problem of the source.
	rejected.list = slices.DeleteFunc(rejected.list, func(f RejectedEntry) bool {
		name, err := strconv.Unquote(`"` + f.Path + `"`)
		return err == nil && !IsIgnoreFile(name) && (r.ignoresFolder(name) || r.Ignores(name))
	})
	return selected, r.CheckCost()
}

// ReadPatterns reads an IgnoreFile. It returns ErrInvalid if the file is too large.
func ReadPatterns(ctx context.Context, read Reader, f File) ([]Pattern, error) {
	data, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxIgnoreBytes {
		return nil, fault.New(fault.ErrInvalid, "too big: %d bytes, at most %d are read of an %s", len(data), MaxIgnoreBytes, IgnoreFile)
	}
	return parsePatterns(data), nil
}
