package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// maxFileBytes is the largest file that is read. The limit for profiles is 1 MiB; the
// decoder reports an error for larger ones.
const maxFileBytes = 2 << 20 // 2 MiB

// Read reads files and folders. In folders it selects files like a ProfileSource: *.yaml and
// *.yml except hidden files and those that .osmignore excludes. Files that a ProfileSource
// would reject are findings. A file that is named twice is read once.
func Read(ctx context.Context, paths []string) ([]File, []Finding, error) {
	var files []File
	var findings []Finding
	seen := map[string]bool{}
	add := func(f File) {
		if key := filepath.Clean(f.Path); !seen[key] {
			seen[key] = true
			files = append(files, f)
		}
	}
	for _, name := range paths {
		info, err := os.Stat(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", name, withoutPath(err))
		}
		if !info.IsDir() {
			f, err := readFile(name)
			if err != nil {
				return nil, nil, err
			}
			add(f)
			continue
		}
		full, err := filepath.Abs(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", name, err)
		}
		below, rejected, err := source.Directory{Root: "/", Path: full}.ReadFiles(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range below {
			add(File{Path: path.Join(filepath.ToSlash(name), f.Path), Data: f.Data, Folder: filepath.ToSlash(name)})
		}
		for _, r := range rejected {
			findings = append(findings, Finding{Rule: RuleUnreadable, Severity: SeverityError, Path: path.Join(filepath.ToSlash(name), r.Path),
				Message: "is not read: " + r.Reason})
		}
	}
	return files, findings, nil
}

func readFile(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, withoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, withoutPath(err))
	}
	return File{Path: filepath.ToSlash(filepath.Clean(name)), Data: data}, nil
}

// withoutPath takes the path out of an error that will name it anyway.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
