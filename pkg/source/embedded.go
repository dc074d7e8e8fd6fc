package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// Embedded has files that are compiled into the program.
type Embedded struct {
	// FS has the files. It never changes.
	FS fs.FS
	// Repository is the URL of the repository that the files are from, and Path the folder
	// in it that corresponds to FS.
	Repository, Path string
}

// Read returns a snapshot of the files, with the revision "builtin@sha256:<64 hex>" over names
// and contents. It has no history, no commit and no dirty file. The commit of the release is
// omitted because it would change with every upgrade of the program, also for pools whose
// profile did not; the digest of a profile identifies its content. Limits are those of a
// repository.
func (e Embedded) Read(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Repository: e.Repository}
	var q filter.Quota
	var rejected filter.RejectedEntries
	err := fs.WalkDir(e.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		if d.Name() == IgnoreFile {
			return nil
		}
		kind, reason := filter.Classify(d.Name(), filter.ModeOf(d.Type()))
		full := path.Join(e.Path, name)
		switch {
		case kind != filter.ClassFolder && d.IsDir():
			err = fs.SkipDir
		case kind == filter.ClassFile:
			data, why, err := e.file(name, d, &q)
			if err != nil {
				return err
			}
			if reason = why; reason != "" {
				break
			}
			id, err := objectid.Sum(plumbing.BlobObject, data)
			if err != nil {
				return err
			}
			s.Files = append(s.Files, File{Path: full, Blob: id.String(), Data: data})
		}
		if reason != "" {
			rejected.Add(full, reason)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the built-in files: %w", err)
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	s.Rejected = rejected.Sorted()
	s.Revision = "builtin@" + digest(s.Files)
	return s, nil
}

// file reads a profile file, or returns the limit that excludes it as the reason.
func (e Embedded) file(name string, d fs.DirEntry, q *filter.Quota) (data []byte, reason string, err error) {
	info, err := d.Info()
	if err != nil {
		return nil, "", err
	}
	if reason = q.Admit(info.Size()); reason != "" {
		return nil, reason, nil
	}
	data, err = fs.ReadFile(e.FS, name)
	return data, "", err
}

// digest returns the revision of files that are not those of a commit.
func digest(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%x\n", f.Path, sha256.Sum256(f.Data))
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}
