package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// A fileReader brings the content of a file, which has a path or a blob or both.
type fileReader func(ctx context.Context, f File) ([]byte, error)

// keep takes the files of a tree that the rules leave in, and what was refused of
// them. It reads the IgnoreFiles among the files, and does not return them.
func (s scope) keep(ctx context.Context, read fileReader, files []File, refused *refusals) ([]File, error) {
	patterns := map[string][]pattern{}
	kept := make([]File, 0, len(files))
	for _, f := range files {
		if !isIgnoreFile(f.Path) {
			kept = append(kept, f)
			continue
		}
		if len(patterns) == maxIgnoreFiles {
			refused.add(f.Path, fmt.Sprintf("too many files: the first %d of this name are read", maxIgnoreFiles))
			continue
		}
		found, err := readPatterns(ctx, read, f)
		if errors.Is(err, fault.ErrInvalid) {
			refused.add(f.Path, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns[f.Path] = found
	}
	r := newRules(s, patterns)
	kept = slices.DeleteFunc(kept, func(f File) bool { return r.ignores(f.Path) })
	refused.list = slices.DeleteFunc(refused.list, func(f Refusal) bool {
		name, err := strconv.Unquote(`"` + f.Path + `"`)
		return err == nil && !isIgnoreFile(name) && (r.folder(name) || r.ignores(name))
	})
	return kept, r.check()
}

// readPatterns reads an IgnoreFile. One that is too big is ErrInvalid.
func readPatterns(ctx context.Context, read fileReader, f File) ([]pattern, error) {
	data, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(data) > maxIgnoreBytes {
		return nil, fault.New(fault.ErrInvalid, "too big: %d bytes, at most %d are read of an %s", len(data), maxIgnoreBytes, IgnoreFile)
	}
	return parsePatterns(data), nil
}
