package cli

import (
	"errors"
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
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
