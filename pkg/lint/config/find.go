package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds what is read, before the decoder has its own limits.
const maxFile = 2 << 20 // 2 MiB

// Find looks for the file: in the folder of a path and in those above it, up to the
// one that holds .git. The nearest is taken. Outside a repository only the folder
// itself is looked at: what lies further up belongs to somebody else. "" is none.
func Find(path string) (string, error) {
	folder, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	var found []string // from the folder upwards
	for at := folder; ; at = filepath.Dir(at) {
		switch _, err := os.Lstat(filepath.Join(at, Name)); {
		case err == nil:
			found = append(found, at)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("looking for %s: %w", Name, err)
		}
		_, err := os.Lstat(filepath.Join(at, ".git"))
		inside := err == nil
		if !inside && at != filepath.Dir(at) {
			continue
		}
		if len(found) == 0 || !inside && found[0] != folder {
			return "", nil
		}
		return filepath.Join(found[0], Name), nil
	}
}

// Read reads a file as Parse does.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}
