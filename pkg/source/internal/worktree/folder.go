package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// folderWalk finds the profile files below a folder on disk, by the rules for repositories.
type folderWalk struct {
	root *os.Root
	top  string // relative to the root; paths of files are relative to it
	// followFiles reads files that are symlinks if their targets are below the root.
	// Symlinks in a work tree are rejected, as in a repository.
	followFiles bool

	entries  int
	found    []string
	rejected filter.RejectedEntries
}

func (w *folderWalk) wasFound(path string) bool {
	_, found := slices.BinarySearch(w.found, path)
	return found
}

func (w *folderWalk) findFiles(ctx context.Context, in filter.Scope) error {
	for i := range in.Parts {
		path := strings.Join(in.Parts[:i+1], "/")
		info, err := w.root.Lstat(w.diskPath(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fault.New(fault.ErrNotFound, "path %q does not exist there", path)
		case err != nil:
			return fault.New(fault.ErrInvalid, "path %q cannot be read: %v", path, err)
		case info.Mode()&fs.ModeSymlink != 0 && !w.followFiles:
			return fault.New(fault.ErrInvalid, "path %q is a symlink, and links are not followed", path)
		}
		if w.followFiles {
			continue
		}
		if _, err := w.root.Lstat(w.diskPath(path + "/.git")); err == nil {
			return fault.New(fault.ErrInvalid, "path %q is a submodule, or a repository of its own, which is not entered: name that folder itself", path)
		}
	}
	if err := w.walkFolder(ctx, in.Path(), 0); err != nil {
		return err
	}
	slices.Sort(w.found)
	files := make([]filter.File, len(w.found))
	for i, path := range w.found {
		files[i].Path = path
	}
	files, err := in.Select(ctx, w.readIgnoreFile, files, &w.rejected)
	w.found = w.found[:0]
	for _, f := range files {
		w.found = append(w.found, f.Path)
	}
	return err
}

// readIgnoreFile reads an IgnoreFile.
func (w *folderWalk) readIgnoreFile(_ context.Context, f filter.File) ([]byte, error) {
	data, reason, err := w.readFile(f.Path, &filter.Quota{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // gone since it was listed
	}
	if err == nil && reason != "" {
		err = fault.New(fault.ErrInvalid, "%s", reason)
	}
	return data, err
}

// diskPath returns a path relative to the root.
func (w *folderWalk) diskPath(path string) string {
	return filepath.Join(w.top, filepath.FromSlash(path))
}

// walkFolder records the files and folders below a folder.
func (w *folderWalk) walkFolder(ctx context.Context, prefix string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := w.list(prefix)
	if err != nil {
		return err
	}
	if !w.followFiles && prefix != "" && slices.ContainsFunc(entries, isDotGit) {
		w.rejected.Add(prefix, "submodule: a folder with a repository of its own is not entered")
		return nil
	}
	for _, e := range entries {
		if isDotGit(e) {
			continue
		}
		path := filter.JoinPath(prefix, e.Name())
		switch class, reason := w.classify(path, e); {
		case class == filter.ClassRejected:
			w.rejected.Add(path, reason)
		case class == filter.ClassFile:
			w.found = append(w.found, path)
		case class == filter.ClassFolder && depth == filter.MaxDepth:
			w.rejected.Add(path, filter.TooDeep)
		case class == filter.ClassFolder:
			err := w.walkFolder(ctx, path, depth+1)
			if errors.Is(err, fs.ErrPermission) {
				w.rejected.Add(path, "permission denied")
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func isDotGit(e fs.DirEntry) bool { return e.Name() == ".git" }

func (w *folderWalk) list(path string) ([]fs.DirEntry, error) {
	dir, err := w.root.OpenFile(w.diskPath(path), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) && path != "" {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "path %q cannot be read as a folder: %v", path, err)
	}
	defer dir.Close()
	// One entry more than allowed shows that there are too many.
	entries, err := dir.ReadDir(filter.MaxEntries + 1 - w.entries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if w.entries += len(entries); w.entries > filter.MaxEntries {
		return nil, fault.New(fault.ErrInvalid, "there are more than %d entries below the path; set it to the folder of the profiles", filter.MaxEntries)
	}
	return entries, nil
}

func (w *folderWalk) classify(path string, e fs.DirEntry) (filter.Class, string) {
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 && w.followFiles && (e.Name() == filter.IgnoreFile || !strings.HasPrefix(e.Name(), ".")) {
		info, err := w.root.Stat(w.diskPath(path))
		switch {
		case err != nil:
			return filter.ClassRejected, "symlink: it leads nowhere, or out of the root of directories"
		case info.Mode().IsRegular():
			mode = 0
		default:
			return filter.ClassRejected, "symlink: links to folders are not followed"
		}
	}
	return filter.Classify(e.Name(), filter.ModeOf(mode))
}

// readFiles finds the files of a scope, and reads them in the order of their paths.
func (w *folderWalk) readFiles(ctx context.Context, in filter.Scope) ([]filter.File, []filter.RejectedEntry, error) {
	if err := w.findFiles(ctx, in); err != nil {
		return nil, nil, err
	}
	var q filter.Quota
	var files []filter.File
	for _, path := range w.found {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		data, reason, err := w.readFile(path, &q)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since it was listed
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %q: %w", path, err)
		}
		if reason != "" {
			w.rejected.Add(path, reason)
			continue
		}
		id, err := objectid.Sum(plumbing.BlobObject, data)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %q: %w", path, err)
		}
		files = append(files, filter.File{Path: path, Blob: id.String(), Data: data})
	}
	return files, w.rejected.Sorted(), nil
}

func (w *folderWalk) readFile(path string, q *filter.Quota) (data []byte, reason string, err error) {
	f, size, err := openRegular(w.root, w.diskPath(path))
	if errors.Is(err, errNotRegular) {
		return nil, "it is no longer a regular file", nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, "permission denied", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if reason := q.Admit(size); reason != "" {
		return nil, reason, nil
	}
	before, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	data, err = io.ReadAll(io.LimitReader(f, filter.MaxFileBytes+1))
	if err != nil {
		return nil, "", err
	}
	if len(data) > filter.MaxFileBytes {
		return nil, "too big: it grew while it was read", nil
	}
	// Reject a file that changed during the read: a part of it can be a valid profile.
	// Writers that rename a complete file into place are never rejected.
	after, err := f.Stat()
	if err == nil && (after.Size() != int64(len(data)) || !after.ModTime().Equal(before.ModTime())) {
		err = errMoved
	}
	return data, "", err
}

var errNotRegular = errors.New("not a regular file")

// openRegular opens a file for reading and rejects anything but a regular file: reading a
// named pipe would block.
func openRegular(root *os.Root, path string) (*os.File, int64, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
