package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// ErrNotEmpty says that a folder is not empty.
var ErrNotEmpty = errors.New("is not empty")

// Write writes files into a folder, which must be new or empty. With add it can contain
// other files: an existing file with the same content is unchanged, and one with other
// content is an error. Nothing is overwritten, and after such an error nothing was written.
func Write(dir string, files map[string][]byte, add bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // a work tree, readable by other users
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !add {
		return fmt.Errorf("%s: %w: name a new folder, or set --force, which adds files and overwrites none", dir, ErrNotEmpty)
	}
	// A symlink in the folder cannot lead outside.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names := slices.Sorted(maps.Keys(files))
	var missing []string
	var conflicts []error
	for _, name := range names {
		text, err := root.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
		case err != nil:
			conflicts = append(conflicts, err)
		case !bytes.Equal(text, files[name]):
			conflicts = append(conflicts, fmt.Errorf("%s: already exists with other content: move it away first; nothing was written", path.Join(dir, name)))
		}
	}
	if len(conflicts) > 0 {
		return errors.Join(conflicts...)
	}
	for _, name := range missing {
		if err := write(root, name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

func write(root *os.Root, name string, text []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(string(text), "#!") {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
