package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile replaces a file atomically. An existing file retains its mode, and a symlink
// its place: the target is replaced. A new file is readable by everyone. Anything other
// than a regular file, such as a pipe, is written to directly.
func ReplaceFile(path string, text []byte) error {
	mode := fs.FileMode(0o644)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(path, text, mode)
	case err == nil:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".osm-gitops-")
	if err != nil {
		return wrapWriteError(path, err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the error is about the file that the user named
		return wrapWriteError(path, err)
	}
	return nil
}

// wrapWriteError adds the path to an error of writing a file, and removes the name of the temporary
// file.
func wrapWriteError(path string, err error) error {
	var of *fs.PathError
	var linked *os.LinkError
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &linked):
		err = linked.Err
	}
	return fmt.Errorf("writing %s: %w", path, err)
}
